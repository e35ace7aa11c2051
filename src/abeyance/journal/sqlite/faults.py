"""Which errors of SQLite mean that the store can't be used right now.

Busy, full, read-only or gone is a state of the disk, not of the request: the caller gets
`StoreUnavailableError`, nothing was taken, and the same request works once the disk does. Every other
error is a mistake in this package and is raised as it is.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from abeyance.errors import StoreUnavailableError

_REASONS = {
    sqlite3.SQLITE_BUSY: "the database is busy: another program holds its write lock",
    sqlite3.SQLITE_LOCKED: "the database is busy: another program holds its write lock",
    sqlite3.SQLITE_PROTOCOL: "the database is busy: another program holds its write lock",
    sqlite3.SQLITE_NOMEM: "there is no memory left for the database",
    sqlite3.SQLITE_FULL: "the disk of the database is full",
    sqlite3.SQLITE_READONLY: "the database is read-only: check the file's permissions and its mount",
    sqlite3.SQLITE_PERM: "the database file may not be used: check its permissions",
    sqlite3.SQLITE_IOERR: "the disk of the database reports an error",
    sqlite3.SQLITE_CANTOPEN: "the database file can't be opened: check its folder and its mount",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the database file isn't a database: restore it from a backup",
}


def unavailable(error: BaseException) -> StoreUnavailableError | None:
    """What to raise for this error of SQLite, or `None` if it says nothing about the store's state."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    reason = _REASONS.get(code & 0xFF)
    if reason is None:
        return None
    found = StoreUnavailableError(reason)
    found.__cause__ = error
    return found


@contextmanager
def translated() -> Iterator[None]:
    """Raise `StoreUnavailableError` in place of the errors of SQLite that mean it."""
    try:
        yield
    except sqlite3.Error as error:
        found = unavailable(error)
        if found is None:
            raise
        raise found from error
