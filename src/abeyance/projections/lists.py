"""The lists that the services hand on: runs, waits, and the audit log.

A list's first page is preceded by a short catching up, so that who has just written something finds it there.
"""

from typing import Protocol
from uuid import UUID

from abeyance.errors import StoreUnavailableError
from abeyance.projections.audit_log import AuditLog, Sees
from abeyance.projections.follower import Follower
from abeyance.projections.runs_list import RunsFilter, RunsList
from abeyance.projections.views import AuditRecord, Page
from abeyance.projections.wait_view import WaitView
from abeyance.projections.waits_list import WaitsFilter, WaitsList

CATCH_UP_S = 0.25


class RunsQuery(Protocol):
    """Which runs to list; what `engine.service.ListRuns` is."""

    @property
    def workspace(self) -> str:
        """Only runs of this workspace."""

    @property
    def project(self) -> str | None:
        """Only runs of this project of it."""

    @property
    def status(self) -> str | None:
        """Only runs with this status."""

    @property
    def definition(self) -> str | None:
        """Only runs of this flow, script or agent."""

    @property
    def label(self) -> tuple[str, str] | None:
        """Only runs with this label."""

    @property
    def limit(self) -> int:
        """Runs a page."""

    @property
    def cursor(self) -> str | None:
        """Where the page begins."""


class WaitsQuery(Protocol):
    """Which waits to list; what `engine.waits.ListWaits` is."""

    @property
    def workspace(self) -> str:
        """Only waits of this workspace."""

    @property
    def project(self) -> str | None:
        """Only waits of this project."""

    @property
    def kind(self) -> str | None:
        """Only waits of this kind."""

    @property
    def name(self) -> str | None:
        """Only waits with this name."""

    @property
    def tool(self) -> str | None:
        """Only waits of this tool."""

    @property
    def run_id(self) -> UUID | None:
        """Only waits of this run."""

    @property
    def limit(self) -> int:
        """Waits a page."""

    @property
    def cursor(self) -> str | None:
        """Where the page begins."""


class Lists:
    """See the module."""

    def __init__(self, runs: RunsList, waits: WaitsList, audit_log: AuditLog, follower: Follower) -> None:
        self._runs = runs
        self._waits = waits
        self._audit_log = audit_log
        self._follower = follower

    async def runs(self, query: RunsQuery) -> Page[UUID]:
        """Ids of runs, newest first. Raises `InvalidCursorError`."""
        if query.cursor is None:
            await self._catch_up()
        wanted = RunsFilter(
            workspace=query.workspace,
            project=query.project,
            status=query.status,
            definition=query.definition,
            label=query.label,
        )
        return await self._runs.find(wanted, limit=query.limit, cursor=query.cursor)

    async def waits(self, query: WaitsQuery) -> Page[WaitView]:
        """Open waits, oldest first. Raises `InvalidCursorError`."""
        if query.cursor is None:
            await self._catch_up()
        wanted = WaitsFilter(
            workspace=query.workspace,
            project=query.project,
            kind=query.kind,
            name=query.name,
            tool=query.tool,
            run_id=query.run_id,
        )
        return await self._waits.find(wanted, limit=query.limit, cursor=query.cursor)

    async def audit_log(
        self,
        *,
        after: int,
        limit: int,
        run_id: UUID | None,
        kind: str | None,
        sees: Sees | None = None,
    ) -> Page[AuditRecord]:
        """Sealed events after index `after`, in the journal's order; see `AuditLog.find`."""
        await self._catch_up()
        return await self._audit_log.find(after=after, limit=limit, run_id=run_id, kind=kind, sees=sees)

    async def _catch_up(self) -> None:
        """As far as it goes: a store that can be read but not written to still shows its lists."""
        try:
            await self._follower.catch_up(within_s=CATCH_UP_S)
        except StoreUnavailableError:
            return
