"""The list of open waits on SQLite: its changes, made one after the other."""

import sqlite3
from collections.abc import Sequence

from abeyance.projections.read_models import Place
from abeyance.projections.waits_list import WaitChange

_MOVE = """
UPDATE read_models SET position = ? WHERE name = 'waits' AND generation = ? AND position = ? AND live = ?
"""
_TENANT = "SELECT workspace, project FROM run_control WHERE run_id = ?"
_PUT = """
INSERT OR REPLACE INTO waits_list (
    generation, run_id, key, op, kind, opened, since, due, node, tool, tool_version, name, line, workspace,
    project
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_OF_RUN = "WHERE generation = ? AND run_id = ?"
_REACH = f"UPDATE waits_list SET since = ?, due = ?, name = ?, line = ? {_OF_RUN} AND key = ?"
_SET_DUE = f"UPDATE waits_list SET due = ? {_OF_RUN} AND key = ?"
_CLOSE = f"DELETE FROM waits_list {_OF_RUN} AND key = ?"
_CLOSE_CALL = f"DELETE FROM waits_list {_OF_RUN} AND kind = 'token' AND op = ?"
# Operations hold dots, digits, letters and `-`: a comparison of beginnings, as LIKE has wildcards.
_CLOSE_LOSERS = f"""
DELETE FROM waits_list {_OF_RUN} AND substr(op, 1, length(?3)) = ?3 AND substr(op, 1, length(?4)) <> ?4
"""
_CLOSE_ALL = f"DELETE FROM waits_list {_OF_RUN}"


def apply_waits(cursor: sqlite3.Cursor, place: Place, position: int, changes: Sequence[WaitChange]) -> bool:
    """See `ReadModelStore.apply_waits`."""
    if cursor.execute(_MOVE, (position, place.generation, place.position, place.live)).rowcount != 1:
        return False
    for change in changes:
        _apply(cursor, place.generation, change)
    return True


def _apply(cursor: sqlite3.Cursor, generation: int, change: WaitChange) -> None:
    run = (generation, change.run_id.bytes)
    match change.what:
        case "open":
            tenant = cursor.execute(_TENANT, run[1:]).fetchone() or ("default", "default")
            cursor.execute(_PUT, (*run, *change[2:], *tenant))
        case "reach":
            cursor.execute(_REACH, (change.since, change.due, change.name, change.line, *run, change.key))
        case "move":
            cursor.execute(_SET_DUE, (change.due, *run, change.key))
        case "close":
            cursor.execute(_CLOSE, (*run, change.key))
        case "close-call":
            cursor.execute(_CLOSE_CALL, (*run, change.op))
        case "close-losers":
            cursor.execute(_CLOSE_LOSERS, (*run, f"{change.op}.b", change.key))
        case "close-all":
            cursor.execute(_CLOSE_ALL, run)
