"""Reading a store that somebody else may have open, without a lock and without making a file.

A SQLite file that no process has open is read as it stands (`immutable`): opening it otherwise would make
its `-wal` and `-shm` files (https://www.sqlite.org/wal.html#read_only_databases).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeyance.errors import ConfigurationError, StoreUnavailableError

if TYPE_CHECKING:
    import psycopg

_PATIENCE_S = 5
_CAUSES = {
    "too many": "it has no connection left",
    "password authentication failed": "it refuses the role's password",
    "no password supplied": "it wants a password, and the URL has none",
    "no pg_hba.conf entry": "its pg_hba.conf lets this role in from nowhere here",
    "role ": "it has no such role",
    "database ": "it has no such database, or the role may not use it",
    "onnection refused": "nobody listens at its address",
    "No such file or directory": "there is no such socket",
    "could not translate host name": "its host name isn't known",
    "timeout": "no answer within 5 s",
    "starting up": "it is starting up",
    "shutting down": "it is shutting down",
}


@contextmanager
def peek_sqlite(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads and makes no file. Raises `StoreUnavailableError` for what SQLite says."""
    in_use = any(file.with_name(file.name + suffix).exists() for suffix in ("-wal", "-journal"))
    mode = "mode=ro" if in_use else "mode=ro&immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True, timeout=_PATIENCE_S)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        yield connection
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"{file} can't be read: {error}") from error
    finally:
        if connection is not None:
            connection.close()


@contextmanager
def peek_postgres(url: str) -> "Iterator[psycopg.Connection[Any]]":
    """A connection whose transactions can't write. Raises `StoreUnavailableError`, `ConfigurationError`."""
    import psycopg

    try:
        with psycopg.connect(url, prepare_threshold=None, connect_timeout=_PATIENCE_S) as connection:
            # Said in each BEGIN: a setting of the session would stay behind in a pooler's connection.
            connection.read_only = True
            yield connection
    except psycopg.ProgrammingError as error:
        raise ConfigurationError("the database's URL can't be read, or its role may not read") from error
    except psycopg.Error as error:
        raise StoreUnavailableError(f"the database can't be asked: {_cause(error)}") from error


def _cause(error: "psycopg.Error") -> str:
    """Why a connection failed, in words without the URL's: libpq's own text may hold parts of it."""
    said = str(error)
    return next((cause for words, cause in _CAUSES.items() if words in said), type(error).__name__)


def has_table(connection: sqlite3.Connection, table: str) -> bool:
    """Whether a SQLite database has this table."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())
