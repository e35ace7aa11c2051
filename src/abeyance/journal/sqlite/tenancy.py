"""Workspaces and projects on SQLite: see `abeyance.journal.tenancy`.

The search for a tenant's runs goes over the agenda's two indexes, which hold unfinished runs only, `scan` of
them at a time: an index of its own would cost every run something, and a suspension is rare.
"""

import sqlite3
from typing import Any
from uuid import UUID

from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.sqlite.appending import write_stream
from abeyance.journal.sqlite.reading import TENANT_STATE
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.tenancy import WHOLE, Change, FoundRuns, Place, Sweep, Tenant, TenantRow

_GET_WORKSPACE = "SELECT workspace, '', state, created, updated FROM workspaces WHERE workspace = ?"
_GET_PROJECT = (
    "SELECT workspace, project, state, created, updated FROM projects WHERE workspace = ? AND project = ?"
)
_WORKSPACES = (
    "SELECT workspace, '', state, created, updated FROM workspaces WHERE workspace > ? "
    "ORDER BY workspace LIMIT ?"
)
_PROJECTS = (
    "SELECT workspace, project, state, created, updated FROM projects WHERE workspace = ? AND project > ? "
    "ORDER BY project LIMIT ?"
)
_LOOK_UP = f"""
SELECT EXISTS (SELECT 1 FROM workspaces WHERE workspace = c.workspace),
       EXISTS (SELECT 1 FROM projects WHERE workspace = c.workspace AND project = c.project),
       {TENANT_STATE}
FROM (SELECT ? AS workspace, ? AS project) AS c
"""
_PUT_WORKSPACE = "INSERT INTO workspaces VALUES (:workspace, :state, :moment, :moment) ON CONFLICT DO NOTHING"
_PUT_PROJECT = (
    "INSERT INTO projects VALUES (:workspace, :project, :state, :moment, :moment) ON CONFLICT DO NOTHING"
)
_SET_WORKSPACE = (
    "UPDATE workspaces SET state = :state, updated = :moment WHERE workspace = :workspace AND state = :seen"
)
_SET_PROJECT = (
    "UPDATE projects SET state = :state, updated = :moment "
    "WHERE workspace = :workspace AND project = :project AND state = :seen"
)
_PUT_SWEEP = "INSERT OR REPLACE INTO sweeps VALUES (:workspace, :project, :moment, :moment, NULL)"
_DROP_SWEEP = "DELETE FROM sweeps WHERE workspace = :workspace AND project = :project"
_UNSWEPT = "SELECT 1 FROM sweeps WHERE workspace = ? AND project = ? AND passed IS NULL"
_DUE = "SELECT workspace, project, started, due, passed FROM sweeps WHERE due <= ? ORDER BY due LIMIT 1"
_MOVE = "UPDATE sweeps SET due = ?, passed = ? WHERE workspace = ? AND project = ? AND due = ?"
_END = "DELETE FROM sweeps WHERE workspace = ? AND project = ? AND due = ?"
_SCAN = """
SELECT run_id, due, workspace, project FROM run_control
WHERE {which} AND (due, run_id) > (?, ?) ORDER BY due, run_id LIMIT ?
"""
_READY = _SCAN.format(which="status IN ('pending', 'running')")
_WAITING = _SCAN.format(which="status = 'suspended'")


class SQLiteTenants:
    """See `TenantStore`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def get(self, workspace: str, project: str = WHOLE) -> TenantRow | None:
        """See `TenantStore.get`."""
        query, values = (_GET_PROJECT, (workspace, project)) if project else (_GET_WORKSPACE, (workspace,))
        rows = self._read(query, values)
        return TenantRow(*rows[0]) if rows else None

    async def page(self, workspace: str | None, after: str, limit: int) -> list[TenantRow]:
        """See `TenantStore.page`."""
        if workspace is None:
            return [TenantRow(*row) for row in self._read(_WORKSPACES, (after, limit))]
        return [TenantRow(*row) for row in self._read(_PROJECTS, (workspace, after, limit))]

    async def look_up(self, workspace: str, project: str) -> Tenant:
        """See `TenantStore.look_up`."""
        ((has_workspace, has_project, state),) = self._read(_LOOK_UP, (workspace, project))
        return Tenant(bool(has_workspace), bool(has_project), state)

    async def change(self, change: Change, append: StreamAppend) -> bool:
        """See `TenantStore.change`."""
        return await self._store.write(lambda cursor: _change(cursor, change, append))

    async def is_swept(self, workspace: str, project: str) -> bool:
        """See `TenantStore.is_swept`."""
        return not self._read(_UNSWEPT, (workspace, project))

    async def take_sweep(self, now: int, until: int) -> Sweep | None:
        """See `TenantStore.take_sweep`."""
        if not self._read(_DUE, (now,)):
            return None
        return await self._store.write(lambda cursor: _take(cursor, now, until))

    async def put_back(self, sweep: Sweep, due: int, passed: int | None) -> Sweep | None:
        """See `TenantStore.put_back`."""
        values = (due, passed, sweep.workspace, sweep.project, sweep.due)
        moved = await self._store.write(lambda cursor: cursor.execute(_MOVE, values).rowcount)
        return sweep._replace(due=due, passed=passed) if moved else None

    async def end_sweep(self, sweep: Sweep) -> None:
        """See `TenantStore.end_sweep`."""
        values = (sweep.workspace, sweep.project, sweep.due)
        await self._store.write(lambda cursor: cursor.execute(_END, values).rowcount)

    async def unfinished(self, workspace: str, project: str, place: Place, scan: int) -> FoundRuns:
        """See `TenantStore.unfinished`."""
        query = _WAITING if place.waiting else _READY
        rows = self._read(query, (place.due, place.run_id.bytes, scan))
        runs = [UUID(bytes=run) for run, _, *tenant in rows if _is_of(tenant, workspace, project)]
        if len(rows) == scan:
            return FoundRuns(runs, Place(place.waiting, rows[-1][1], UUID(bytes=rows[-1][0])))
        return FoundRuns(runs, None if place.waiting else Place(waiting=True))

    def _read(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return self._store.read(lambda reader: reader.execute(query, values).fetchall())


def _is_of(tenant: list[str], workspace: str, project: str) -> bool:
    return tenant[0] == workspace and project in (WHOLE, tenant[1])


def _change(cursor: sqlite3.Cursor, change: Change, append: StreamAppend) -> bool:
    values = change._asdict()
    if change.seen is None:
        statement = _PUT_PROJECT if change.project else _PUT_WORKSPACE
    else:
        statement = _SET_PROJECT if change.project else _SET_WORKSPACE
    cursor.execute("SAVEPOINT change")
    changed = cursor.execute(statement, values).rowcount == 1
    if changed and write_stream(cursor, append.stream, append.expected, append.events):
        if change.sweeps:
            cursor.execute(_PUT_SWEEP, values)
        elif change.state == "active":
            cursor.execute(_DROP_SWEEP, values)
    else:
        changed = False
        cursor.execute("ROLLBACK TO change")
    cursor.execute("RELEASE change")
    return changed


def _take(cursor: sqlite3.Cursor, now: int, until: int) -> Sweep | None:
    row = cursor.execute(_DUE, (now,)).fetchone()
    if row is None:
        return None
    sweep = Sweep(*row)
    cursor.execute(_MOVE, (until, sweep.passed, sweep.workspace, sweep.project, sweep.due))
    return sweep._replace(due=until)
