"""The deployment's keys and the runs' keys: are they there, private, and the ones the store was made with."""

import stat
from collections.abc import Iterator
from pathlib import Path

from abeyance.bootstrap.doctor.probes import has_run_key, log_sizes, wrapped_epochs
from abeyance.bootstrap.doctor.report import Line, note, ok, unseen, wrong
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.bootstrap.identity import check_keys as check_identity
from abeyance.bootstrap.keys import FILES, load_keys, need_root
from abeyance.crypto.sealing import unwrap_key
from abeyance.journal.sqlite.epochs import EpochFiles

_NOT_PRIVATE = stat.S_IRWXG | stat.S_IRWXO
_RESTORE = "restore the key store from the backup that belongs to this journal"


def check_keys(subject: Subject) -> Iterator[Line]:
    """The event key, the log key and the master key; for a new store also the root key."""
    files = _files(subject)
    if subject.role == "dev" and not any(file.exists() for file in files) and subject.identity is None:
        yield note("keys", f"none yet: the first `abeyance dev` makes them in {subject.key_dir}")
        return
    keys = load_keys(subject.with_keys)
    if subject.identity is None:
        need_root(keys.root, "a new store")
        yield ok("keys", "root, event, log and master key can be read; the store is new")
    else:
        check_identity(subject.identity, keys)
        yield ok("keys", f"the store's log certifies event key {keys.event.kid.hex()}")
    for file in files:
        if file.exists() and file.stat().st_mode & _NOT_PRIVATE:
            yield wrong("keys", f"{file} can be read by others", f"chmod 600 {file}")


def _files(subject: Subject) -> list[Path]:
    """The key files: those that are named one by one, the others in the folder of the keys."""
    settings, folder = subject.settings, subject.key_dir
    found: list[Path] = []
    named = (settings.root_key, settings.event_key, settings.log_key, settings.master_key)
    for name, given in zip(FILES, named, strict=True):
        if given and not given.startswith(("base64:", "exec:")):
            found.append(Path(given).expanduser())
        elif not given and folder is not None:
            found.append(folder / name)
    return found


def check_key_store(subject: Subject) -> Iterator[Line]:
    """The store of the runs' keys: opened by the master key, and as new as the journal."""
    tables = subject.tables["key store"]
    if not tables.found:
        if subject.newest is None:
            yield note("key store", "it is new: the first start makes it")
        else:
            yield wrong("key store", "the journal has runs, the key store has nothing", _RESTORE)
        return
    if tables.refusal:
        yield unseen("key store", "a newer release has made it")
        return
    _open_epochs(subject)
    yield ok("key store", "the master key opens it")
    there, kept = log_sizes(subject.settings)
    if kept > there:
        says = f"the log has {there} records, a checkpoint over {kept} was kept: the journal is an old copy"
        yield wrong("key store", says, "put the newest copy of the journal in its place")
    if subject.newest is None or subject.newest.erased:
        return
    if has_run_key(subject.settings, subject.newest.key_id):
        yield ok("key store", "it has the key of the newest run")
    else:
        yield wrong(
            "key store", "the key of the newest run isn't in it: it is older than the journal", _RESTORE
        )


def _open_epochs(subject: Subject) -> None:
    """Raise `ConfigurationError` if the master key doesn't open them."""
    master = load_keys(subject.with_keys).master
    for number, wrapped in wrapped_epochs(subject.settings):
        if wrapped is not None:
            unwrap_key(master, wrapped)
        elif number and subject.settings.keys_file is not None:
            EpochFiles(subject.settings.keys_file.parent, master).read(number)
