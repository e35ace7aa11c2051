"""The keys of a deployment: made once, in files that only their owner reads.

`root.pem` certifies the others and is needed only for that; `event.pem` signs events; `log.pem` signs the
log's checkpoints; `master.key` wraps the key stores' epoch keys. `root.pub`, the root's public key, is what
an auditor gets. Files are made with O_EXCL, mode 0600, synced and renamed into place, before the log is
opened.
"""

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from abeyance.crypto.programs import ProgramSigner
from abeyance.crypto.signing import FileSigner, Signer, encode_public_key, public_pem
from abeyance.errors import ConfigurationError
from abeyance.settings import Settings

FILES = ("root.pem", "event.pem", "log.pem", "master.key")
ROOT_PUBLIC = "root.pub"
MASTER_KEY_BYTES = 32

SignerName = Literal["root", "event", "log"]
_SIGNERS: tuple[SignerName, ...] = ("root", "event", "log")


class DeploymentKeys(NamedTuple):
    """The keys that a process has. `root` is there only to open a log, or to certify or end a key."""

    root: Signer | None
    event: Signer
    log: Signer
    master: bytes


def make_keys(folder: Path) -> dict[str, Any]:
    """Make the four files in `folder`. Raises `ConfigurationError` if one is there already."""
    there = [name for name in (*FILES, ROOT_PUBLIC) if (folder / name).exists()]
    if there:
        raise ConfigurationError(f"{folder} has {', '.join(there)} already; no key file is ever replaced")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    root, event, log = (FileSigner.from_seed(os.urandom(32)) for _ in range(3))
    contents = (root.to_pem(), event.to_pem(), log.to_pem(), os.urandom(MASTER_KEY_BYTES))
    for name, content in zip(FILES, contents, strict=True):
        write_new(folder / name, content)
    write_new(folder / ROOT_PUBLIC, public_pem(root.public_key))
    return {
        "folder": str(folder),
        "root": {"kid": root.kid.hex(), "publicKey": public_pem(root.public_key).decode()},
        "event": {"kid": event.kid.hex(), "publicKey": encode_public_key(event.public_key)},
        "log": {"kid": log.kid.hex(), "publicKey": encode_public_key(log.public_key)},
    }


def write_new(path: Path, content: bytes) -> None:
    """Write a new private file whole or not at all; never over another one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def need_root(root: Signer | None, what: str) -> Signer:
    """The root key. Raises `ConfigurationError` that says what it is needed for."""
    if root is None:
        raise ConfigurationError(
            f"{what} needs the root key: put root.pem into the key folder for this, or set ABEYANCE_ROOT_KEY"
        )
    return root


def load_keys(settings: Settings) -> DeploymentKeys:
    """The keys that the settings name. Raises `ConfigurationError` that says which one is missing."""
    root, event, log = (open_signer(settings, name) for name in _SIGNERS)
    master = settings.key("master")
    if event is None or log is None or master is None:
        raise ConfigurationError("set ABEYANCE_KEY_DIR to a folder that `abeyance keys make DIR` has filled")
    if len(master) != MASTER_KEY_BYTES:
        raise ConfigurationError(f"ABEYANCE_MASTER_KEY: a master key has {MASTER_KEY_BYTES} bytes")
    return DeploymentKeys(root, event, log, master)


def open_signer(settings: Settings, name: SignerName) -> Signer | None:
    """The signer that the settings name, from a file, a variable or a program; `None` if none is named."""
    program = settings.signing_program(name)
    if program is not None:
        return ProgramSigner(program)
    pem = settings.key(name)
    return None if pem is None else FileSigner.from_pem(pem)
