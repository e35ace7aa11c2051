"""Reads that answer from indexed rows. Each takes a connection inside a read transaction.

No cost here grows with a run's history, except where the history is what was asked for; a test looks at
the query plans.
"""

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.store import (
    Control,
    EventRow,
    OpenWait,
    RunRecord,
    StoredRun,
    StoredWait,
    WaitRow,
)

Row = tuple[Any, ...]

_CONTROL = (
    "c.run_id, c.version, c.head, c.status, c.due, c.lease_id, c.lease_until, c.definition, c.key_id, "
    "c.key_state, c.workspace, c.project, c.created, c.updated"
)
_WAIT = "w.run_id, w.opened, w.call_key, w.ordinal, w.state, w.paused, w.answer, w.due, w.closed"
TENANT_STATE = """coalesce(
    (SELECT CASE state WHEN 'suspended' THEN 'tenant-suspended' ELSE 'tenant-closing' END
     FROM workspaces AS t WHERE t.workspace = c.workspace AND t.state <> 'active'),
    (SELECT 'project-suspended' FROM projects AS t
     WHERE t.workspace = c.workspace AND t.project = c.project AND t.state <> 'active'),
    'active')"""
"""Whether the tenant of the control row `c` lets its runs go on, or why not; without a row it does."""
# CROSS JOIN keeps the order of the tables as written: from the one row that is named to its neighbours.
_STORED_WAIT = """
CROSS JOIN run_control AS c ON c.run_id = w.run_id
LEFT JOIN journal_events AS o
    ON o.originator_id = lower(hex(w.run_id)) AND o.originator_version = w.opened
LEFT JOIN journal_events AS n ON n.rowid = (
    SELECT rowid FROM journal_events WHERE originator_id = lower(hex(w.run_id))
    ORDER BY originator_version DESC LIMIT 1)
LEFT JOIN journal_events AS e
    ON e.originator_id = lower(hex(w.run_id)) AND e.originator_version = w.answer
LEFT JOIN contents AS a ON a.event = e.rowid
"""
_STORED_WAIT_COLUMNS = (
    f"{_WAIT}, {_CONTROL}, n.originator_version, n.topic, n.state, "
    f"o.originator_version, o.topic, o.state, a.blob, {TENANT_STATE}"
)

SELECT_CONTROL = f"SELECT {_CONTROL} FROM run_control AS c WHERE c.run_id = ?"
SELECT_EVENTS = """
SELECT originator_version, topic, state FROM journal_events
WHERE originator_id = ? AND originator_version > ? AND originator_version <= ?
ORDER BY originator_version LIMIT ?
"""
SELECT_EVENTS_AND_CONTENTS = """
SELECT originator_version, topic, state, blob
FROM journal_events LEFT JOIN contents ON contents.event = journal_events.rowid
WHERE originator_id = ? AND originator_version > ? AND originator_version <= ?
ORDER BY originator_version LIMIT ?
"""
SELECT_NEWEST = """
SELECT originator_version, topic, state, blob
FROM journal_events LEFT JOIN contents ON contents.event = journal_events.rowid
WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1
"""
SELECT_CONTENT = """
SELECT blob FROM journal_events CROSS JOIN contents ON contents.event = journal_events.rowid
WHERE originator_id = ? AND originator_version = ?
"""
SELECT_LINKED = f"""
SELECT {_STORED_WAIT_COLUMNS} FROM links AS l
CROSS JOIN waits AS w ON w.run_id = l.run_id AND w.opened = l.opened {_STORED_WAIT}
WHERE l.digest = ?
"""
SELECT_CALLED = f"""
SELECT {_STORED_WAIT_COLUMNS} FROM waits AS w INDEXED BY waits_call {_STORED_WAIT}
WHERE w.call_key = ? AND w.ordinal = ? AND w.run_id = ?
"""
SELECT_OPEN = f"""
SELECT {_WAIT}, o.originator_version, o.topic, o.state, p.originator_version, p.topic, p.state
FROM waits AS w INDEXED BY waits_open
LEFT JOIN journal_events AS o
    ON o.originator_id = lower(hex(w.run_id)) AND o.originator_version = w.opened
LEFT JOIN journal_events AS p
    ON p.originator_id = lower(hex(w.run_id)) AND p.originator_version = w.paused
WHERE w.run_id = ? AND w.closed IS NULL ORDER BY w.opened
"""
SELECT_DEFINITION = "SELECT document FROM definitions WHERE digest = ?"

_ALL = 1 << 62


def read_run(connection: sqlite3.Connection, run_id: UUID, after: int, upto: int | None) -> StoredRun | None:
    """See `JournalStore.read_run`."""
    control = _control(connection, run_id)
    if control is None:
        return None
    rows = connection.execute(
        SELECT_EVENTS_AND_CONTENTS, (run_id.hex, after, _ALL if upto is None else upto, -1)
    ).fetchall()
    return StoredRun(control, *_split(run_id, rows))


def read_events(
    connection: sqlite3.Connection, stream: UUID, after: int, limit: int, contents: bool
) -> tuple[list[EventRow], dict[int, bytes]]:
    """See `JournalStore.read_events`."""
    key = (stream.hex, after, _ALL, max(limit, 0))
    if contents:
        return _split(stream, connection.execute(SELECT_EVENTS_AND_CONTENTS, key).fetchall())
    return [EventRow(stream, *row) for row in connection.execute(SELECT_EVENTS, key)], {}


def read_record(connection: sqlite3.Connection, run_id: UUID) -> RunRecord | None:
    """See `JournalStore.read_record`."""
    control = _control(connection, run_id)
    if control is None:
        return None
    first = connection.execute(SELECT_EVENTS, (run_id.hex, 0, 1, 1)).fetchone()
    newest = connection.execute(SELECT_NEWEST, (run_id.hex,)).fetchone()
    waits = [_open_wait(row) for row in connection.execute(SELECT_OPEN, (run_id.bytes,))]
    if first is None or newest is None:
        raise _damaged(run_id)
    return RunRecord(control, EventRow(run_id, *first), EventRow(run_id, *newest[:3]), newest[3], waits)


def read_controls(connection: sqlite3.Connection, run_ids: Iterable[UUID]) -> list[Control]:
    """The control rows of these runs."""
    found = (_control(connection, run_id) for run_id in run_ids)
    return [control for control in found if control is not None]


def find_link(connection: sqlite3.Connection, digest: bytes) -> StoredWait | None:
    """See `JournalStore.find_link`."""
    return _stored_wait(connection.execute(SELECT_LINKED, (digest,)).fetchone())


def find_wait(
    connection: sqlite3.Connection, run_id: UUID, call_key: UUID, ordinal: int
) -> StoredWait | None:
    """See `JournalStore.find_wait`."""
    key = (call_key.bytes, ordinal, run_id.bytes)
    return _stored_wait(connection.execute(SELECT_CALLED, key).fetchone())


def find_content(connection: sqlite3.Connection, run_id: UUID, version: int) -> bytes | None:
    """See `JournalStore.find_content`."""
    row = connection.execute(SELECT_CONTENT, (run_id.hex, version)).fetchone()
    return None if row is None else row[0]


def find_definition(connection: sqlite3.Connection, digest: bytes) -> bytes | None:
    """See `JournalStore.get_definition`."""
    row = connection.execute(SELECT_DEFINITION, (digest,)).fetchone()
    if row is None:
        return None
    document: bytes = row[0]
    if hashlib.sha256(document).digest() != digest:
        raise VerificationError("the stored document doesn't have this digest", f"definition {digest.hex()}")
    return document


def put_definition(cursor: sqlite3.Cursor, digest: bytes, document: bytes) -> bool:
    """See `JournalStore.put_definition`."""
    statement = "INSERT INTO definitions (digest, document) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
    return cursor.execute(statement, (digest, document)).rowcount == 1


def _control(connection: sqlite3.Connection, run_id: UUID) -> Control | None:
    row = connection.execute(SELECT_CONTROL, (run_id.bytes,)).fetchone()
    return None if row is None else _to_control(row)


def _to_control(row: Row) -> Control:
    run_id, version, head, status, due, lease_id, *rest = row
    lease = None if lease_id is None else UUID(bytes=lease_id)
    return Control(UUID(bytes=run_id), version, head, status, due, lease, *rest)


def to_wait(row: Row) -> WaitRow:
    """The wait whose columns these are, in the order of the port's tuple."""
    call_key = None if row[2] is None else UUID(bytes=row[2])
    return WaitRow(UUID(bytes=row[0]), row[1], call_key, *row[3:9])


def _split(stream: UUID, rows: list[Row]) -> tuple[list[EventRow], dict[int, bytes]]:
    events = [EventRow(stream, version, topic, state) for version, topic, state, _ in rows]
    return events, {version: blob for version, _, _, blob in rows if blob is not None}


def _stored_wait(row: Row | None) -> StoredWait | None:
    if row is None:
        return None
    wait, control = to_wait(row[:9]), _to_control(row[9:23])
    if row[23] is None or row[26] is None:
        raise _damaged(wait.run_id)
    newest, opening = EventRow(wait.run_id, *row[23:26]), EventRow(wait.run_id, *row[26:29])
    return StoredWait(wait, control, newest, opening, row[29], row[30])


def _open_wait(row: Row) -> OpenWait:
    wait = to_wait(row[:9])
    if row[9] is None:
        raise _damaged(wait.run_id)
    pausing = None if row[12] is None else EventRow(wait.run_id, *row[12:15])
    return OpenWait(wait, EventRow(wait.run_id, *row[9:12]), pausing)


def _damaged(run_id: UUID) -> HistoryDamagedError:
    return HistoryDamagedError("an event that an indexed row names isn't stored", f"run {run_id}")
