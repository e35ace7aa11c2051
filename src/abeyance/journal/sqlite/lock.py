"""One process on one SQLite folder, and none on a network disk.

Several processes on one file would be correct but unfair and slow, and a long reader in one would hold
up the others' checkpoints. So the first process holds a lock file, and a second one is told what to do.
A write-ahead log needs shared memory and locks that network and shared-folder file systems don't keep
(https://www.sqlite.org/wal.html), so a store there is refused, never run and corrupted.
"""

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path

from abeyance.errors import ConfigurationError

FilesystemType = Callable[[Path], str]

_REMOTE = frozenset(
    "9p afs beegfs ceph cifs coda gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 prl_fs smb2 smb3 smbfs "
    "vboxsf virtiofs vmhgfs".split()
)
_MOUNTS = Path("/proc/self/mountinfo")


class FolderLock:
    """The exclusive right to a store's folder, until it is released or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, file: Path, filesystem_type: FilesystemType) -> "FolderLock":
        """Make the file's folder (0700) if there is none, and lock the file.

        Raises `ConfigurationError` if another process holds it, or if the folder can't hold a store.
        """
        _make_folder(file.parent)
        _refuse_remote(file.parent, filesystem_type)
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"{file} can't be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise ConfigurationError(_held(file, holder)) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let another process have the folder. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _held(file: Path, holder: str) -> str:
    return (
        f"{file} is held by another process ({holder or 'unknown'}): a SQLite store serves one process. "
        "Stop that one, or talk to it over HTTP; for several processes or machines use PostgreSQL: "
        "give a database URL that begins with postgresql://"
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the folder {folder} can't be made: {error.strerror}") from error


def _refuse_remote(folder: Path, filesystem_type: FilesystemType) -> None:
    kind = filesystem_type(folder)
    if is_remote(kind):
        raise ConfigurationError(
            f"{folder} is on a network or shared-folder file system ({kind}), where SQLite can lose or "
            "corrupt a database: choose a folder on a local disk, or use PostgreSQL"
        )


def is_remote(kind: str) -> bool:
    """Whether a file system of this type may lose what SQLite relies on."""
    return kind in _REMOTE or kind.startswith("fuse")


def mounted_filesystem(path: Path) -> str:
    """The type of the file system that holds `path`, as Linux names it; empty where that can't be told."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
    return filesystem_in(mounts, path.resolve())


def filesystem_in(mounts: str, path: Path) -> str:
    """The type of `path`'s file system according to the text of a `/proc/<pid>/mountinfo`."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # A later line of the same length is mounted over the earlier one.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split(" ", 1)[0]
    return kind
