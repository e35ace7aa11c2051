"""The journal as a recorder of the eventsourcing library (9.5.6): its tables seen through its contract.

`Application`, `Repository.get(version=, projector_func=)` and followers that page through
`select_notifications` work on it. Notifications come in **sealed** order, id = sealed index + 1, and only
once they are sealed; `insert_events` answers with the ids that its events will have. With `appends` it is
the compare-and-swap of docs/adr/0004, the same that the store's writer runs.

Every transaction that writes begins with `BEGIN IMMEDIATE`: a transaction that reads first and then wants
to write fails at once if another one committed in between, however long the timeout
(https://www.sqlite.org/lang_transaction.html). It takes no lock on the folder: a process opens it beside
its own store, or on a copy.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from eventsourcing.persistence import IntegrityError, Notification, ProgrammingError, StoredEvent
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteFactory,
    SQLiteTransaction,
)
from eventsourcing.utils import Environment, EnvType

from abeyance.journal.sqlite import appending, sealing
from abeyance.journal.sqlite.connection import create_file, open_connection
from abeyance.journal.sqlite.schema import JOURNAL
from abeyance.journal.store import Append, EventRow, SealedEvent, check_appends

_PAGE = 512


class ImmediateTransaction(SQLiteTransaction):
    """The library's transaction, with the write lock from the start if it is going to commit."""

    def __enter__(self) -> SQLiteCursor:
        cursor = self.connection.cursor()
        cursor.execute("BEGIN IMMEDIATE" if self.commit else "BEGIN")
        return cursor


class JournalConnection(SQLiteConnection):
    """A connection that is as durable as the store's own."""

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        """A transaction, committed or rolled back at the end."""
        with ImmediateTransaction(self, commit=commit) as cursor, cursor:
            yield cursor


class JournalPool(SQLiteConnectionPool):
    """The library's pool over `open_connection`, which asserts the settings of every connection."""

    def _create_connection(self) -> SQLiteConnection:
        connection = open_connection(Path(self.db_name))
        connection.row_factory = sqlite3.Row
        return JournalConnection(connection, max_age=self.max_age)


class JournalDatastore(SQLiteDatastore):
    """The library's datastore on the journal's file. Streams are known by UUIDs."""

    def __init__(self, path: Path) -> None:
        super().__init__(db_name=str(path))
        self.path = path
        self.pool.close()
        self.pool = JournalPool(db_name=str(path))


class JournalSQLiteRecorder(SQLiteApplicationRecorder):
    """See the module. `subscribe` stays as the library has it: not there; followers page."""

    datastore: JournalDatastore

    def __init__(self, datastore: SQLiteDatastore, events_table_name: str = "journal_events") -> None:
        super().__init__(datastore, events_table_name)

    def construct_create_table_statements(self) -> list[str]:
        """None: `create_table` runs the package's own schema and migrations."""
        return []

    def create_table(self) -> None:
        """Make the tables, or migrate them."""
        create_file(self.datastore.path)
        connection = open_connection(self.datastore.path)
        try:
            JOURNAL.ensure(connection)
        finally:
            connection.close()

    def insert_appends(self, appends: Sequence[Append]) -> list[bool]:
        """Write those that win in one transaction; `True` for each that did."""
        check_appends(appends)
        with self.datastore.transaction(commit=True) as cursor:
            return appending.write_appends(cursor.sqlite_cursor, appends)

    def _insert_events(
        self,
        c: SQLiteCursor,
        stored_events: Sequence[StoredEvent],
        *,
        appends: Sequence[Append] = (),
        **_: Any,
    ) -> Sequence[int]:
        """The events' notification ids. Raises `IntegrityError` if one of the streams moved on, or one of
        `appends` (whose events these are) lost; then nothing is written.
        """
        cursor = c.sqlite_cursor
        size, last = cursor.execute(sealing.SELECT_SEALER).fetchone()
        events = [_to_row(event) for event in stored_events]
        rowids = (
            _insert_appends(cursor, events, appends) if appends else appending.insert_events(cursor, events)
        )
        return [size + rowid - last for rowid in rowids]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Sealed events, in sealed order."""
        begin = 0 if start is None else start - 1 if inclusive_of_start else start
        found: list[Notification] = []
        with self.datastore.transaction(commit=False) as c:
            cursor = c.sqlite_cursor
            size = sealing.sealed_size(cursor)
            end = size if stop is None else min(stop, size)
            for index in range(max(begin, 0), end, _PAGE):
                page = sealing.read_sealed(cursor, index, min(_PAGE if topics else limit, _PAGE, end - index))
                found.extend(
                    _to_notification(sealed) for sealed in page if not topics or sealed.event.topic in topics
                )
                if len(found) >= limit:
                    break
        return found[:limit]

    def _max_notification_id(self, c: SQLiteCursor) -> int:
        # The library's own returns what MAX() of an empty table does, and its contract asks for that.
        return sealing.sealed_size(c.sqlite_cursor) or None  # type: ignore[return-value]


def _insert_appends(cursor: sqlite3.Cursor, events: list[EventRow], appends: Sequence[Append]) -> list[int]:
    check_appends(appends)
    if events != [event for append in appends for event in append.events]:
        raise ProgrammingError("the stored events must be those of the appends, in their order")
    rowids: list[int] = []
    for append in appends:
        written = appending.write_append(cursor, append)
        if written is None:
            raise IntegrityError("the run moved on, its lease changed, or its key is gone: decide again")
        rowids.extend(written)
    return rowids


def _to_row(event: StoredEvent) -> EventRow:
    if not isinstance(event.originator_id, UUID):
        raise ProgrammingError("a stream of the journal is known by a UUID")
    return EventRow(event.originator_id, event.originator_version, event.topic, event.state)


def _to_notification(sealed: SealedEvent) -> Notification:
    run_id, version, topic, state = sealed.event
    return Notification(
        id=sealed.sealed_index + 1, originator_id=run_id, originator_version=version, topic=topic, state=state
    )


class JournalSQLiteFactory(SQLiteFactory):
    """Makes an `Application` of the library use the journal: `PERSISTENCE_MODULE` names this class."""

    application_recorder_class = JournalSQLiteRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        path = Path(self.datastore.pool.db_name)
        self.datastore.close()
        self.datastore = JournalDatastore(path)
