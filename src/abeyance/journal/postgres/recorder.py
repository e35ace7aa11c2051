"""The journal as a recorder of the `eventsourcing` library: synchronous, over the same tables and functions.

For tools, time travel, followers and conformance; the server writes through `store`. What differs from the
library's own recorder:

1. Tables come from `migrate`; nothing is created here.
2. A notification's id is its sealed index plus one: gap-free, and committed order. `insert_events` seals what
   it wrote to know the ids, and returns `None` if a transaction that is still open elsewhere holds that up.
3. With `appends` the write is the compare-and-swap of `journal_append`; any loser is an `IntegrityError`, and
   nothing is written.
4. No retry around a write: a connection that was lost during the commit is judged by the stored bytes.
5. The library's database functions are refused (they take no lock, so followers miss events), and so is its
   `subscribe`: follow the sealed index instead.
"""

import logging
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any, NoReturn
from uuid import UUID

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL

from abeyance.errors import ConfigurationError
from abeyance.journal.postgres import sealing
from abeyance.journal.postgres.appending import APPEND, columns
from abeyance.journal.postgres.connecting import read_rows
from abeyance.journal.postgres.migrations import JOURNAL
from abeyance.journal.postgres.sealing import Result
from abeyance.journal.postgres.wire import Statement, value_of
from abeyance.journal.store import Append, SealedEvent, check_appends

# The library silences psycopg's loggers when it is imported. That is not its decision.
_LOGGERS = [logging.getLogger(name) for name in ("psycopg", "psycopg.pool")]
_LEVELS = [logger.level for logger in _LOGGERS]

from eventsourcing.persistence import (  # noqa: E402
    IntegrityError,
    Notification,
    NotSupportedError,
    OperationalError,
    StoredEvent,
)
from eventsourcing.postgres import (  # noqa: E402
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresFactory,
)

for _logger, _level in zip(_LOGGERS, _LEVELS, strict=True):
    _logger.setLevel(_level)

TABLE = "journal_events"
PAGE_EVENTS = 500
SEAL_TIMEOUT_S = 1.0
_SEAL_PAUSE_S = 0.005
_SELECT_EVENTS = SQL(
    "SELECT originator_id, originator_version, topic, state FROM journal_events WHERE originator_id = %s"
).format()
_INSERT = value_of("journal_insert", "uuid[]", "bigint[]", "text[]", "bytea[]")


class JournalPostgresRecorder(PostgresApplicationRecorder):
    """See the module. `open_recorder` makes one from a URL, `JournalPostgresFactory` from the environment."""

    def __init__(self, datastore: PostgresDatastore, *, events_table_name: str = TABLE) -> None:
        if datastore.enable_db_functions:
            raise ConfigurationError(
                "POSTGRES_ENABLE_DB_FUNCTIONS must not be set: followers would miss events"
            )
        if events_table_name != TABLE or datastore.originator_id_type != "uuid":
            raise ConfigurationError(f"the journal's table is {TABLE}, its streams have UUIDs")
        super().__init__(datastore, events_table_name=events_table_name)
        self.select_events_statement = _SELECT_EVENTS

    def create_table(self) -> None:
        """Check that the tables are there. Raises `ConfigurationError` if `migrate` must run first."""
        with self.datastore.get_connection() as connection:
            try:
                ((version,),) = _run(connection, JOURNAL.select_version, [])
            except errors.UndefinedTable:
                version = 0
        JOURNAL.check_version(version)

    def insert_events(
        self, stored_events: Sequence[StoredEvent], *, appends: Sequence[Append] = (), **_: Any
    ) -> Sequence[int] | None:
        """Write the events, with `appends` those of the appends. Raises the library's `IntegrityError`."""
        names = [(event.originator_id, event.originator_version) for event in stored_events]
        if appends and names != [(row.run_id, row.version) for append in appends for row in append.events]:
            raise ValueError("the stored events must be those of the appends, in their order")
        if not stored_events:
            return None
        try:
            with self.datastore.get_connection() as connection:
                _write(connection, stored_events, appends)
        except OperationalError:
            if not self._has_landed(stored_events[0]):
                raise
        return self._seal_all([(UUID(str(stream)), version) for stream, version in names])

    def _has_landed(self, event: StoredEvent) -> bool:
        version = event.originator_version
        found = self.select_events(event.originator_id, gt=version - 1, lte=version)
        return [stored.state for stored in found] == [event.state]

    def _seal_all(self, names: Sequence[sealing.Name]) -> list[int] | None:
        """Seal until these events have their index, and return their notification ids."""
        deadline = time.monotonic() + SEAL_TIMEOUT_S
        start, wanted, found = self.max_notification_id() or 0, set(names), dict[sealing.Name, int]()
        start = max(start - PAGE_EVENTS, 0)  # another sealer may have been faster
        while True:
            self._carry_out(sealing.seal(PAGE_EVENTS))
            page = self._carry_out(sealing.read_sealed(start, PAGE_EVENTS))
            for sealed_index, event in page:
                found[event.run_id, event.version] = sealed_index + 1
            if wanted <= found.keys():
                return [found[name] for name in names]
            if time.monotonic() > deadline:
                return None
            start += len(page)
            if not page:
                time.sleep(_SEAL_PAUSE_S)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Sealed events in sealed order; `start` and `stop` are notification ids."""
        first = 0 if start is None else start - 1 if inclusive_of_start else start
        found: list[Notification] = []
        while len(found) < limit:
            page = self._carry_out(sealing.read_sealed(first, PAGE_EVENTS if topics else limit))
            fitting = [_notification(event) for event in page if not topics or event.event.topic in topics]
            fitting = [item for item in fitting if stop is None or item.id <= stop]
            found.extend(islice(fitting, limit - len(found)))
            if not page or not topics or (stop is not None and page[-1].sealed_index + 1 >= stop):
                break
            first = page[-1].sealed_index + 1
        return found

    def max_notification_id(self) -> int | None:
        """How many events are sealed; `None` if there is none."""
        return self._carry_out(sealing.seal(0)) or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> NoReturn:
        """Not offered: a subscription waits for a NOTIFY that may be lost, and reads before the sealer."""
        raise NotSupportedError("follow the journal with select_notifications, which never misses an event")

    def _carry_out(self, steps: sealing.Steps[Result]) -> Result:
        rows: Any = None
        with self.datastore.get_connection() as connection:
            while True:
                try:
                    query, values = steps.send(rows)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                rows = _run(connection, query, values)


class JournalPostgresFactory(PostgresFactory):
    """For `PERSISTENCE_MODULE`, in an application whose name is `journal`."""

    application_recorder_class = JournalPostgresRecorder


def open_recorder(url: str) -> JournalPostgresRecorder:
    """A recorder over the journal at `url`; close its `datastore` after use."""
    parameters: dict[str, Any] = {**conninfo_to_dict(url), "row_factory": dict_row}
    datastore = PostgresDatastore("", "", "", "", "", pool_size=1, max_overflow=4)
    datastore.pool.kwargs = parameters  # the library knows five parameters, a URL may have any
    recorder = JournalPostgresRecorder(datastore)
    recorder.create_table()
    return recorder


def _run(
    connection: psycopg.Connection[DictRow], query: Statement, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    packed = query.pack(values)
    result = connection.pgconn.exec_params(query.text, packed, query.oids, query.formats, 1)
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise errors.error_from_result(result)
    return read_rows(result)


def _write(
    connection: psycopg.Connection[DictRow], stored_events: Sequence[StoredEvent], appends: Sequence[Append]
) -> None:
    if not appends:
        streams = [event.originator_id for event in stored_events]
        versions = [event.originator_version for event in stored_events]
        bodies = [[event.topic for event in stored_events], [event.state for event in stored_events]]
        _run(connection, _INSERT, [streams, versions, *bodies])
        return
    check_appends(appends)
    with connection.transaction():
        ((winners,),) = _run(connection, APPEND, columns(appends))
        if len(winners) != len(appends):
            raise IntegrityError("a stream has moved on, its lease is lost, or its wait is closed")


def _notification(event: SealedEvent) -> Notification:
    run_id, version, topic, state = event.event
    return Notification(run_id, version, topic, state, id=event.sealed_index + 1)
