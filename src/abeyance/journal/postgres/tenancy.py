"""Workspaces and projects on PostgreSQL: see `abeyance.journal.tenancy`. Each method is one statement.

The search for a tenant's runs goes over the agenda's two indexes, which hold unfinished runs only, `scan` of
them at a time: an index of its own would cost every run something, and a suspension is rare.
"""

from typing import Any

from abeyance.errors import StoreUnavailableError
from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.postgres.failures import ConnectionLostError
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import Statement, statement, value_of
from abeyance.journal.tenancy import WHOLE, Change, FoundRuns, Place, Sweep, Tenant, TenantRow

_GET_WORKSPACE = statement(
    "SELECT workspace, '', state, created, updated FROM workspaces WHERE workspace = $1", "text"
)
_GET_PROJECT = statement(
    "SELECT workspace, project, state, created, updated FROM projects WHERE workspace = $1 AND project = $2",
    "text", "text",
)  # fmt: skip
_WORKSPACES = statement(
    'SELECT workspace, \'\', state, created, updated FROM workspaces WHERE workspace COLLATE "C" > $1 '
    'ORDER BY workspace COLLATE "C" LIMIT $2',
    "text", "bigint",
)  # fmt: skip
_PROJECTS = statement(
    'SELECT workspace, project, state, created, updated FROM projects WHERE workspace = $1 '
    'AND project COLLATE "C" > $2 ORDER BY project COLLATE "C" LIMIT $3',
    "text", "text", "bigint",
)  # fmt: skip
_LOOK_UP = statement(
    "SELECT EXISTS (SELECT FROM workspaces WHERE workspace = $1), "
    "EXISTS (SELECT FROM projects WHERE workspace = $1 AND project = $2), tenant_state($1, $2)",
    "text", "text",
)  # fmt: skip
_CHANGE = value_of(
    "tenant_change",
    "text", "text", "text", "text", "bigint", "boolean", "uuid", "bigint", "bigint[]", "text[]", "bytea[]",
)  # fmt: skip
_UNSWEPT = statement(
    "SELECT 1 FROM sweeps WHERE workspace = $1 AND project = $2 AND passed IS NULL", "text", "text"
)
_TAKE = statement(
    """
    UPDATE sweeps AS s SET due = $2
    FROM (
        SELECT workspace, project FROM sweeps WHERE due <= $1 ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED
    ) AS d
    WHERE s.workspace = d.workspace AND s.project = d.project
    RETURNING s.workspace, s.project, s.started, s.due, s.passed
    """,
    "bigint", "bigint",
)  # fmt: skip
_MOVE = statement(
    "UPDATE sweeps SET due = $1, passed = $2 WHERE workspace = $3 AND project = $4 AND due = $5 RETURNING 1",
    "bigint", "bigint", "text", "text", "bigint",
)  # fmt: skip
_END = statement(
    "DELETE FROM sweeps WHERE workspace = $1 AND project = $2 AND due = $3 RETURNING 1",
    "text", "text", "bigint",
)  # fmt: skip


def _scan(which: str) -> Statement:
    return statement(
        f"""
        SELECT run_id, due, workspace, project FROM run_control
        WHERE {which} AND due >= $1 AND (due > $1 OR run_id > $2) ORDER BY due, run_id LIMIT $3
        """,
        "bigint", "uuid", "bigint",
    )  # fmt: skip


_READY = _scan("status IN ('pending', 'running')")
_WAITING = _scan("status = 'suspended' AND status IN ('pending', 'running', 'suspended')")


class PostgresTenants:
    """See `TenantStore`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def get(self, workspace: str, project: str = WHOLE) -> TenantRow | None:
        """See `TenantStore.get`."""
        if project:
            rows = await self._store.fetch(_GET_PROJECT, workspace, project)
        else:
            rows = await self._store.fetch(_GET_WORKSPACE, workspace)
        return TenantRow(*rows[0]) if rows else None

    async def page(self, workspace: str | None, after: str, limit: int) -> list[TenantRow]:
        """See `TenantStore.page`."""
        if workspace is None:
            rows = await self._store.fetch(_WORKSPACES, after, limit)
        else:
            rows = await self._store.fetch(_PROJECTS, workspace, after, limit)
        return [TenantRow(*row) for row in rows]

    async def look_up(self, workspace: str, project: str) -> Tenant:
        """See `TenantStore.look_up`."""
        return Tenant(*(await self._store.fetch(_LOOK_UP, workspace, project))[0])

    async def change(self, change: Change, append: StreamAppend) -> bool:
        """See `TenantStore.change`."""
        versions, topics, states = ([event[column] for event in append.events] for column in (1, 2, 3))
        try:
            ((changed,),) = await self._store.fetch(
                _CHANGE, *change, append.stream, append.expected, versions, topics, states
            )
        except ConnectionLostError as lost:
            if await self._store.has_landed(append.events[0], lost):
                return True
            raise StoreUnavailableError(
                "the connection to the database was lost, nothing was written"
            ) from lost
        return bool(changed)

    async def is_swept(self, workspace: str, project: str) -> bool:
        """See `TenantStore.is_swept`."""
        return not await self._store.fetch(_UNSWEPT, workspace, project)

    async def take_sweep(self, now: int, until: int) -> Sweep | None:
        """See `TenantStore.take_sweep`."""
        rows = await self._store.fetch(_TAKE, now, until)
        return Sweep(*rows[0]) if rows else None

    async def put_back(self, sweep: Sweep, due: int, passed: int | None) -> Sweep | None:
        """See `TenantStore.put_back`."""
        moved = await self._store.fetch(_MOVE, due, passed, sweep.workspace, sweep.project, sweep.due)
        return sweep._replace(due=due, passed=passed) if moved else None

    async def end_sweep(self, sweep: Sweep) -> None:
        """See `TenantStore.end_sweep`."""
        await self._store.fetch(_END, sweep.workspace, sweep.project, sweep.due)

    async def unfinished(self, workspace: str, project: str, place: Place, scan: int) -> FoundRuns:
        """See `TenantStore.unfinished`."""
        query = _WAITING if place.waiting else _READY
        rows = await self._store.fetch(query, place.due, place.run_id, scan)
        runs = [run for run, _, *tenant in rows if _is_of(tenant, workspace, project)]
        if len(rows) == scan:
            return FoundRuns(runs, Place(place.waiting, rows[-1][1], rows[-1][0]))
        return FoundRuns(runs, None if place.waiting else Place(waiting=True))


def _is_of(tenant: list[Any], workspace: str, project: str) -> bool:
    return tenant[0] == workspace and project in (WHOLE, tenant[1])
