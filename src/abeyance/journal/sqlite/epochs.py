"""Epoch keys in files: small, private, wrapped by the master key, destroyed one by one.

A file is either whole and on disk or not there (O_EXCL, fsync, rename). To destroy one is to overwrite it
and take its name away; what a disk that never overwrites in place still has is wrapped by the master key.
"""

import os
from pathlib import Path

from abeyance.crypto.sealing import unwrap_key, wrap_key
from abeyance.errors import ConfigurationError
from abeyance.journal.sqlite.connection import sync_folder


class EpochFiles:
    """The epoch keys of one key store, by number."""

    def __init__(self, folder: Path, master_key: bytes) -> None:
        self._folder = folder
        self._master_key = master_key

    def file(self, number: int) -> Path:
        """The file of an epoch's key."""
        return self._folder / f"epoch-{number}.key"

    def exist(self) -> bool:
        """Whether there is any."""
        return any(self._folder.glob("epoch-*.key"))

    def write(self, number: int, key: bytes) -> None:
        """Store an epoch's key durably. Raises `FileExistsError` rather than replace one."""
        file = self.file(number)
        half = file.with_suffix(".half")
        half.unlink(missing_ok=True)
        descriptor = os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(wrap_key(self._master_key, key))
            stream.flush()
            os.fsync(descriptor)
        if file.exists():
            raise FileExistsError(file)
        half.rename(file)
        sync_folder(self._folder)

    def read(self, number: int) -> bytes:
        """An epoch's key. Raises `ConfigurationError` if it is gone or wrapped by another master key."""
        file = self.file(number)
        try:
            wrapped = file.read_bytes()
        except OSError as error:
            message = f"{file} can't be read ({error.strerror}): without it no content opens; restore it"
            raise ConfigurationError(message) from error
        try:
            return unwrap_key(self._master_key, wrapped)
        except (ConfigurationError, ValueError) as error:
            raise ConfigurationError(
                f"{file} is damaged, or was written under another master key: use the keys that this store "
                "was made with (`abeyance dev` makes them in `keys` in the data folder), or set another "
                "ABEYANCE_DATA_DIR"
            ) from error

    def destroy_others(self, number: int) -> None:
        """Destroy every epoch's key but this one's."""
        for file in [*self._folder.glob("epoch-*.key"), *self._folder.glob("epoch-*.half")]:
            if file != self.file(number):
                _destroy(file)
        sync_folder(self._folder)


def _destroy(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.write(bytes(file.stat().st_size))
        stream.flush()
        os.fsync(stream.fileno())
    file.unlink()
