"""The one write to a run: a compare-and-swap on its control row, and what goes in with it.

Runs inside a transaction that began with `BEGIN IMMEDIATE`, so nothing changes between the comparison and
the insert. Losers are found before anything is inserted for them; whatever the primary keys still refuse
(the second line) is rolled back to the append's own savepoint and hurts nobody else.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from uuid import UUID

from abeyance.errors import SigningKeyRetiredError
from abeyance.journal.sqlite.reading import TENANT_STATE
from abeyance.journal.store import Append, Control, EventRow, ReplyRow, WaitRow

_SECOND_LINE = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)

_INSERT_CONTROL = """
INSERT INTO run_control (version, head, status, due, lease_id, lease_until, definition, key_id, key_state,
                         workspace, project, created, updated, run_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id) DO NOTHING
"""
_SWAP_ALL = """
UPDATE run_control
SET version = ?, head = ?, status = ?, due = ?, lease_id = ?, lease_until = ?, definition = ?, key_id = ?,
    key_state = ?, workspace = ?, project = ?, created = ?, updated = ?
WHERE run_id = ? AND version = ? AND lease_id IS ? AND key_state = 'live'
"""
_SWAP_UNDER_LEASE = """
UPDATE run_control
SET version = ?, head = ?, status = ?, definition = ?, key_id = ?, key_state = ?, workspace = ?, project = ?,
    created = ?, updated = ?
WHERE run_id = ? AND version = ? AND lease_id IS ? AND key_state = 'live'
"""
_INSERT_EVENT = (
    "INSERT INTO journal_events (originator_id, originator_version, topic, state) VALUES (?, ?, ?, ?)"
)
_INSERT_CONTENT = "INSERT INTO contents (event, blob) VALUES (?, ?)"
_INSERT_LINK = "INSERT INTO links (digest, run_id, opened) VALUES (?, ?, ?)"
_DELETE_LINK = "DELETE FROM links WHERE digest = ? AND run_id = ?"
_TENANT_STATE = f"SELECT {TENANT_STATE} FROM (SELECT ? AS workspace, ? AS project) AS c"
_PUT_REPLY = """
INSERT INTO replies (scope, request, created, expires, run_id) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE
SET request = excluded.request, created = excluded.created, expires = excluded.expires,
    run_id = excluded.run_id, reply = NULL
WHERE replies.expires <= excluded.created
"""
_FIND_CLOSED = "SELECT 1 FROM waits WHERE run_id = ? AND opened = ? AND closed IS NOT NULL"
_PUT_WAIT = """
INSERT INTO waits (run_id, opened, call_key, ordinal, state, paused, answer, due, closed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, opened) DO UPDATE
SET call_key = excluded.call_key, ordinal = excluded.ordinal, state = excluded.state,
    paused = excluded.paused, answer = excluded.answer, due = excluded.due, closed = excluded.closed
"""
_IS_ENDED = "SELECT 1 FROM signing_keys WHERE kid = ?"
_NEWEST_VERSION = (
    "SELECT originator_version FROM journal_events WHERE originator_id = ? "
    "ORDER BY originator_version DESC LIMIT 1"
)


def write_append(cursor: sqlite3.Cursor, append: Append) -> list[int] | None:
    """Write the append if it wins: the rowids of its events. `None` if it lost; then it left nothing.

    Raises `SigningKeyRetiredError`.
    """
    check_signers(cursor, append.events)
    cursor.execute("SAVEPOINT append")
    rowids = _attempt(cursor, append)
    if rowids is None:
        cursor.execute("ROLLBACK TO append")
    cursor.execute("RELEASE append")
    return rowids


def write_appends(cursor: sqlite3.Cursor, appends: Sequence[Append]) -> list[bool]:
    """Write those that win; `True` for each that did."""
    return [write_append(cursor, append) is not None for append in appends]


def write_stream(
    cursor: sqlite3.Cursor, stream: UUID, expected_version: int, events: Sequence[EventRow]
) -> bool:
    """Append to a stream that has no control row: its newest version is what is compared.

    Raises `SigningKeyRetiredError`.
    """
    check_signers(cursor, events)
    newest = cursor.execute(_NEWEST_VERSION, (stream.hex,)).fetchone()
    if expected_version != (newest[0] if newest else 0):
        return False
    insert_events(cursor, events)
    return True


def check_signers(cursor: sqlite3.Cursor, events: Iterable[EventRow]) -> None:
    """Return if the keys that signed these events may still sign; else raise `SigningKeyRetiredError`."""
    for kid in {event.state[:8] for event in events}:
        if cursor.execute(_IS_ENDED, (kid,)).fetchone() is not None:
            raise SigningKeyRetiredError


def insert_events(cursor: sqlite3.Cursor, events: Iterable[EventRow]) -> list[int]:
    """Insert events and return their rowids."""
    rowids: list[int] = []
    for run_id, version, topic, state in events:
        cursor.execute(_INSERT_EVENT, (run_id.hex, version, topic, state))
        rowids.append(cursor.lastrowid or 0)
    return rowids


def _attempt(cursor: sqlite3.Cursor, append: Append) -> list[int] | None:
    if not _may_win(cursor, append) or not _swap(cursor, append):
        return None
    try:
        return _insert(cursor, append)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode not in _SECOND_LINE:
            raise
        return None


def _may_win(cursor: sqlite3.Cursor, append: Append) -> bool:
    if any(_is_closed(cursor, wait) for wait in append.waits):
        return False
    if (append.expected_version == 0 or append.if_active) and not _is_active(cursor, append.control):
        return False
    return append.reply is None or _put_reply(cursor, append.reply, append.run_id)


def _is_active(cursor: sqlite3.Cursor, control: Control) -> bool:
    row = cursor.execute(_TENANT_STATE, (control.workspace, control.project)).fetchone()
    return bool(row[0] == "active")


def _put_reply(cursor: sqlite3.Cursor, reply: ReplyRow, run_id: UUID) -> bool:
    return cursor.execute(_PUT_REPLY, (*reply, run_id.bytes)).rowcount == 1


def _is_closed(cursor: sqlite3.Cursor, wait: WaitRow) -> bool:
    return cursor.execute(_FIND_CLOSED, (wait.run_id.bytes, wait.opened)).fetchone() is not None


def _swap(cursor: sqlite3.Cursor, append: Append) -> bool:
    control, lease = append.control, _blob(append.expected_lease)
    row = _values(control)
    if append.expected_version == 0:
        return cursor.execute(_INSERT_CONTROL, row).rowcount == 1
    if lease is not None and control.lease_id == append.expected_lease:
        statement, values = _SWAP_UNDER_LEASE, (*row[:3], *row[6:])
    else:
        statement, values = _SWAP_ALL, row
    return cursor.execute(statement, (*values, append.expected_version, lease)).rowcount == 1


def _values(control: Control) -> tuple[object, ...]:
    """The row with its key last, as both statements take it."""
    run_id, version, head, status, due, lease_id, *rest = control
    return (version, head, status, due, _blob(lease_id), *rest, run_id.bytes)


def _blob(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes


def _insert(cursor: sqlite3.Cursor, append: Append) -> list[int]:
    rowids = insert_events(cursor, append.events)
    for content in append.contents:
        event = rowids[content.version - append.expected_version - 1]
        cursor.execute(_INSERT_CONTENT, (event, content.blob))
    for wait in append.waits:
        cursor.execute(_PUT_WAIT, (wait.run_id.bytes, wait.opened, _blob(wait.call_key), *wait[3:]))
    for digest in append.dead_links:
        cursor.execute(_DELETE_LINK, (digest, append.run_id.bytes))
    for link in append.links:
        cursor.execute(_INSERT_LINK, (link.digest, link.run_id.bytes, link.opened))
    return rowids
