"""Which version of each set of tables a store has, and which this release works with. Only reads."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from abeyance.bootstrap.peeking import has_table, peek_postgres, peek_sqlite
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import EventRow
from abeyance.settings import Settings

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
        if not has_table(connection, "journal_events"):
            return []
        return read_events(connection, DEPLOYMENT_STREAM, 0, _MOST_EVENTS, False)[0]


def _postgres_log(url: str) -> list[EventRow]:
    with peek_postgres(url) as connection:
        if connection.execute("SELECT to_regclass('journal_events') IS NULL").fetchone() == (True,):
            return []
        rows = connection.execute(_SELECT_LOG, (DEPLOYMENT_STREAM, _MOST_EVENTS), binary=True).fetchall()
        return [EventRow(*row) for row in rows]


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
    row = (
        connection.execute(f"SELECT version FROM {table}").fetchone()
        if has_table(connection, table)
        else None
    )
    return int(row[0]) if row else 0


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
