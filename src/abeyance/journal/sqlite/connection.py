"""How every connection to a database file is opened, and what it is asserted to do.

The journal: write-ahead log, and `synchronous=FULL`, since NORMAL loses the last commits when the power
goes (https://www.sqlite.org/pragma.html#pragma_synchronous). The key store: a rollback journal that is
truncated, so that no log keeps pages around. Both: `secure_delete`, so that a deleted row is overwritten.
"""

import os
import sqlite3
from pathlib import Path
from typing import Literal

from abeyance.errors import ConfigurationError
from abeyance.journal.sqlite.faults import translated

BUSY_TIMEOUT_S = 2.0
_FULL = 2
_CACHE_KIB = 16_384


def create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, if there is none. SQLite's own files follow it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        # SQLite syncs what it writes into the file, but not the name that it was given here.
        sync_folder(path.parent)
        sync_folder(path.parent.parent)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror}; check its folder") from error


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_connection(
    path: Path,
    *,
    read_only: bool = False,
    journal_mode: Literal["wal", "truncate"] = "wal",
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> sqlite3.Connection:
    """A connection in autocommit mode whose settings were read back, for one thread at a time.

    Raises `StoreUnavailableError` if the file can't be used, `ConfigurationError` if a setting doesn't hold.
    """
    mode = "ro" if read_only else "rw"
    with translated():
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            timeout=busy_timeout_s,
        )
        try:
            _configure(connection, read_only, journal_mode)
        except BaseException:
            connection.close()
            raise
    return connection


def _configure(connection: sqlite3.Connection, read_only: bool, journal_mode: str) -> None:
    if not read_only:
        connection.execute(f"PRAGMA journal_mode={journal_mode}")
        # After a burst, or a reader that held it up, the log shrinks again.
        connection.execute("PRAGMA journal_size_limit=67108864")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    assert_settings(connection, journal_mode)


def assert_settings(connection: sqlite3.Connection, journal_mode: str = "wal") -> None:
    """Return if the connection is as durable as promised; else raise `ConfigurationError`."""
    expected = {"journal_mode": journal_mode, "synchronous": _FULL, "secure_delete": 1}
    for name, value in expected.items():
        found = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if found != value:
            raise ConfigurationError(
                f"SQLite's {name} is {found!r}, not {value!r}: put the database on a disk that allows it"
            )
