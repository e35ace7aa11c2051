"""Which version of each set of tables a store has, and which this release works with. Only reads.

A SQLite file that no process has open is read as it stands (`immutable`): opening it otherwise would make
its `-wal` and `-shm` files (https://www.sqlite.org/wal.html#read_only_databases).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import EventRow
from abeyance.settings import Settings

if TYPE_CHECKING:
    import psycopg

_PATIENCE_S = 5
_MOST_EVENTS = 10_000
_SELECT_LOG = """
SELECT originator_id, originator_version, topic, state FROM journal_events
WHERE originator_id = %s ORDER BY originator_version LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class TableSet:
    """One set of tables: `found` is the version that the store has (0: none), `known` this release's."""

    name: str
    found: int
    known: int

    @property
    def refusal(self) -> str | None:
        """Why this release can't work with it, if it can't; older tables are migrated."""
        if self.found <= self.known:
            return None
        return (
            f"the tables of the {self.name} have version {self.found}, this release knows {self.known}: "
            "use the release that made them, or a newer one"
        )


def table_sets(settings: Settings) -> list[TableSet]:
    """Every set of tables of journal and key store. Raises `StoreUnavailableError`, `ConfigurationError`."""
    journal, keys = settings.journal_file, settings.keys_file
    found: list[TableSet] = []
    if journal is not None:
        found += _sqlite_journal(journal)
    elif settings.database_url is not None:
        found += _postgres_journal(settings.database_url)
    url = settings.keys_url or settings.database_url
    if keys is not None:
        found.append(_sqlite_keys(keys))
    elif url is not None:
        found.append(_postgres_keys(url))
    return found


def log_rows(settings: Settings) -> list[EventRow]:
    """The events of the deployment's own stream; none for a store that is new. Raises as `table_sets`."""
    file = settings.journal_file
    if file is None:
        return _postgres_log(settings.database_url or "")
    if not file.exists():
        return []
    from abeyance.journal.sqlite.reading import read_events

    with peek_sqlite(file) as connection:
        if not _has(connection, "journal_events"):
            return []
        return read_events(connection, DEPLOYMENT_STREAM, 0, _MOST_EVENTS, False)[0]


def _postgres_log(url: str) -> list[EventRow]:
    with peek_postgres(url) as connection:
        if connection.execute("SELECT to_regclass('journal_events') IS NULL").fetchone() == (True,):
            return []
        rows = connection.execute(_SELECT_LOG, (DEPLOYMENT_STREAM, _MOST_EVENTS), binary=True).fetchall()
        return [EventRow(*row) for row in rows]


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
        raise StoreUnavailableError(f"the database can't be asked ({type(error).__name__})") from error


def _sqlite_journal(file: Path) -> list[TableSet]:
    from abeyance.journal.sqlite.schema import JOURNAL
    from abeyance.projections.sqlite.schema import scripts

    journal = models = 0
    if file.exists():
        with peek_sqlite(file) as connection:
            journal = JOURNAL.found(connection) or 0
            models = _version(connection, "read_models_version")
    return [
        TableSet("journal", journal, JOURNAL.version),
        TableSet("read models", models, len(scripts())),
    ]


def _sqlite_keys(file: Path) -> TableSet:
    from abeyance.journal.sqlite.schema import KEY_STORE

    if not file.exists():
        return TableSet("key store", 0, KEY_STORE.version)
    with peek_sqlite(file) as connection:
        return TableSet("key store", KEY_STORE.found(connection) or 0, KEY_STORE.version)


def _version(connection: sqlite3.Connection, table: str) -> int:
    row = connection.execute(f"SELECT version FROM {table}").fetchone() if _has(connection, table) else None
    return int(row[0]) if row else 0


def _has(connection: sqlite3.Connection, table: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())


def _postgres_journal(url: str) -> list[TableSet]:
    from abeyance.journal.postgres.migrations import JOURNAL, stored_version
    from abeyance.projections.postgres.store import READ_MODELS

    with peek_postgres(url) as connection:
        return [
            TableSet(name, stored_version(connection, schema), len(schema.scripts))
            for name, schema in (("journal", JOURNAL), ("read models", READ_MODELS))
        ]


def _postgres_keys(url: str) -> TableSet:
    from abeyance.journal.postgres.migrations import KEYS, stored_version

    with peek_postgres(url) as connection:
        return TableSet("key store", stored_version(connection, KEYS), len(KEYS.scripts))
