"""The disks under SQLite's files: local, writable, not full."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from abeyance.bootstrap.doctor.report import Line, note, ok, unseen, wrong
from abeyance.bootstrap.doctor.subject import Subject
from abeyance.journal.sqlite.lock import is_remote, mounted_filesystem

_MIB = 1 << 20
_TOO_FULL = 64 * _MIB
_NEARLY_FULL = 1024 * _MIB


def check_disk(subject: Subject) -> Iterator[Line]:
    """Each folder that a process of this deployment writes to."""
    settings = subject.settings
    files = [file for file in (settings.journal_file, settings.keys_file) if file is not None]
    for folder in dict.fromkeys(file.parent for file in files):
        yield _folder(folder)
    if settings.on_postgres:
        yield unseen("disk", "the database's disk is on its server")


def _folder(folder: Path) -> Line:
    """The folder, or the nearest one above that is there already."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    kind = mounted_filesystem(there)
    if is_remote(kind):
        return wrong(
            "disk",
            f"{folder} is on a network or shared-folder file system ({kind}), where SQLite can lose data",
            "choose a folder on a local disk, or use PostgreSQL",
        )
    if not os.access(there, os.W_OK | os.X_OK):
        return wrong("disk", f"{there} can't be written by this user", "run as its owner, or change its mode")
    free = shutil.disk_usage(there).free
    says = f"{folder}: {free // _MIB:,} MiB free, file system {kind or 'unknown'}"
    if free < _TOO_FULL:
        return wrong("disk", says, "make room: a full disk refuses every write")
    return note("disk", says, "make room soon") if free < _NEARLY_FULL else ok("disk", says)
