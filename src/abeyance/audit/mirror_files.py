"""The files of a mirror: each is written whole (new, fsync, rename) and one process writes at a time.

The folder itself must be there: a disk that isn't mounted is no reason to fill the one below it.
"""

import fcntl
import os
import shutil
from pathlib import Path

from abeyance.errors import VerificationError

CHECKPOINT = "checkpoint"
_NEW = ".new"
_LOCK = ".lock"


class MirrorFiles:
    """The files below `folder`, by their paths in it. All methods block, and raise `OSError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unsynced = set[Path]()

    def lock(self) -> int | None:
        """Take the folder's lock, to be closed by whoever has it; `None` while another process has it. A kill
        gives it back.
        """
        descriptor = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, path: str) -> bytes | None:
        """What is in a file, `None` if there is none. A missing folder is an `OSError`."""
        try:
            return (self.folder / path).read_bytes()
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise
            return None

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place of the one that may be there. It lasts from the next `sync` on."""
        target = self.folder / path
        self._write_new(data)
        self._make(target.parent)
        os.replace(self.folder / _NEW, target)
        self._mark(target)

    def add(self, path: str, data: bytes) -> None:
        """Write a file that only grows, if it hasn't grown so far yet. Raises `VerificationError` if what is
        there isn't how `data` begins.
        """
        there = self.read(path)
        if there is not None and not data.startswith(there):
            raise VerificationError("this file of the mirror isn't what the log has", path)
        if there == data:
            self._mark(self.folder / path)  # a process that was killed may not have come to that
        else:
            self.write(path, data)

    def sync(self) -> None:
        """Return once everything that was written lasts."""
        for folder in sorted(self._unsynced):
            _sync_folder(folder)
        self._unsynced.clear()

    def remove_folder(self, path: str) -> None:
        """Remove a folder with what is in it, if it is there."""
        if (self.folder / path).is_dir():
            shutil.rmtree(self.folder / path)

    def _write_new(self, data: bytes) -> None:
        descriptor = os.open(self.folder / _NEW, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _make(self, folder: Path) -> None:
        if folder == self.folder or folder.is_dir():
            return
        self._make(folder.parent)
        os.mkdir(folder, 0o755)

    def _mark(self, target: Path) -> None:
        depth = len(target.parts) - len(self.folder.parts)
        self._unsynced.update(target.parents[:depth])


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
