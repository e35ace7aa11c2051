"""Reads: one statement each, so that what is read is of one moment."""

from typing import Any
from uuid import UUID

from abeyance.errors import HistoryDamagedError
from abeyance.journal.postgres.wire import rows_of, statement
from abeyance.journal.store import (
    Control,
    EventRow,
    OpenWait,
    RunRecord,
    StoredRun,
    StoredWait,
    WaitRow,
)

LAST_VERSION = (1 << 63) - 1

READ_RUN = rows_of("journal_read_run", "uuid", "bigint", "bigint")
READ_EVENTS = rows_of("journal_read_events", "uuid", "bigint", "bigint", "boolean")
READ_RECORD = rows_of("journal_read_record", "uuid")
FIND_LINK = rows_of("journal_find_link", "bytea")
FIND_WAIT = rows_of("journal_find_wait", "uuid", "uuid", "bigint")
FIND_CONTENT = statement(
    "SELECT content FROM journal_events WHERE originator_id = $1 AND originator_version = $2",
    "uuid", "bigint",
)  # fmt: skip
GET_DEFINITION = statement("SELECT document FROM definitions WHERE digest = $1", "bytea")

Row = tuple[Any, ...]

# Columns of `journal_view`.
_CONTROL, _WAIT, _ONE, _TWO = slice(0, 14), slice(14, 22), slice(22, 25), slice(25, 28)
_BLOB, _TENANT = 28, 29


def to_run(rows: list[Row]) -> StoredRun | None:
    """The rows of `READ_RUN`. Events without a control row are another kind of stream."""
    if not rows or rows[0][0] is None:
        return None
    control = Control(*rows[0][:14])
    run_id = control.run_id
    events = [EventRow(run_id, *row[14:17]) for row in rows[1:]]
    return StoredRun(control, events, {row[14]: row[17] for row in rows[1:] if row[17] is not None})


def to_page(stream: UUID, rows: list[Row]) -> tuple[list[EventRow], dict[int, bytes]]:
    """The rows of `READ_EVENTS`."""
    contents = {version: blob for version, _, _, blob in rows if blob is not None}
    return [EventRow(stream, version, topic, state) for version, topic, state, _ in rows], contents


def to_record(run_id: UUID, rows: list[Row]) -> RunRecord | None:
    """The rows of `READ_RECORD`."""
    if not rows or rows[0][0] is None:
        return None
    row, *open_waits = rows
    first, newest = _event(run_id, row[_ONE]), _event(run_id, row[_TWO])
    waits = [_open_wait(run_id, wait) for wait in open_waits]
    return RunRecord(Control(*row[_CONTROL]), first, newest, row[_BLOB], waits)


def to_wait(rows: list[Row]) -> StoredWait | None:
    """The row of `FIND_LINK` or `FIND_WAIT`."""
    if not rows:
        return None
    (row,) = rows
    control = Control(*row[_CONTROL])
    run_id = control.run_id
    wait = WaitRow(run_id, *row[_WAIT])
    newest, opening = _event(run_id, row[_TWO]), _event(run_id, row[_ONE])
    return StoredWait(wait, control, newest, opening, row[_BLOB], row[_TENANT])


def _open_wait(run_id: UUID, row: Row) -> OpenWait:
    pausing = None if row[_TWO][0] is None else EventRow(run_id, *row[_TWO])
    return OpenWait(WaitRow(run_id, *row[_WAIT]), _event(run_id, row[_ONE]), pausing)


def _event(run_id: UUID, columns: Row) -> EventRow:
    if columns[0] is None:
        raise HistoryDamagedError("an event that an indexed row names isn't stored", f"run {run_id}")
    return EventRow(run_id, *columns)
