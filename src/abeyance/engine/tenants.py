"""Workspaces and projects: made, suspended, restored, closed; and whether a run may begin in one.

A change puts the new state and its signed event in one transaction. Whoever asks second is told the state.
What follows (cancelling the runs) is `abeyance.engine.sweeping`'s.

`default`, the workspace and a project of that name in each workspace, are there without having been made.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from abeyance.engine.callers import DEFAULT_PROJECT, DEFAULT_WORKSPACE
from abeyance.engine.workspace_log import WorkspaceLog
from abeyance.errors import (
    BadInputError,
    InvalidCursorError,
    ProjectNotFoundError,
    ProjectSuspendedError,
    RefusedError,
    StoreUnavailableError,
    TenantClosingError,
    TenantDrainingError,
    TenantStateError,
    TenantSuspendedError,
    WorkspaceNotFoundError,
)
from abeyance.journal import tenant_events as e
from abeyance.journal.events import Event
from abeyance.journal.tenancy import WHOLE, Change, TenantRow, TenantStore
from abeyance.projections.views import Page
from abeyance.world import World, from_micros, to_micros

ACTIVE: Final = "active"
SUSPENDED: Final = "suspended"
CLOSING: Final = "closing"
CLOSED: Final = "closed"
NAME: Final = r"[a-z0-9][a-z0-9._-]{0,62}"

_TRIES = 20
_LOOK_S = 0.05
_ENDING = (CLOSING, CLOSED)
_WHY: dict[str, Callable[[], RefusedError]] = {
    "tenant-suspended": TenantSuspendedError,
    "tenant-closing": TenantClosingError,
    "project-suspended": ProjectSuspendedError,
}


def refuse_inactive(tenant: str) -> None:
    """Return if a tenant is `active`. Raises `TenantSuspendedError`, `TenantClosingError`,
    `ProjectSuspendedError`.
    """
    why = _WHY.get(tenant)
    if why is not None:
        raise why()


class Admission(Protocol):
    """Whether runs may begin, or go on, where they are."""

    async def check_start(self, workspace: str, project: str) -> None:
        """See `Tenants.check_start`."""

    async def check(self, workspace: str, project: str) -> None:
        """See `Tenants.check`."""


class Anywhere:
    """They may, as far as an append doesn't refuse them."""

    async def check_start(self, workspace: str, project: str) -> None:
        """See `Admission.check_start`."""

    async def check(self, workspace: str, project: str) -> None:
        """See `Admission.check`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """A workspace (`project` is `None`) or a project. What nobody has made or changed has no times."""

    workspace: str
    project: str | None
    state: str
    created_at: datetime | None
    updated_at: datetime | None


class Tenants:
    """The workspaces and projects of a deployment. `suspended` is called once runs are to be cancelled."""

    def __init__(
        self, store: TenantStore, log: WorkspaceLog, world: World, *, suspended: Callable[[], None]
    ) -> None:
        self._store = store
        self._log = log
        self._world = world
        self._suspended = suspended

    # --- what others ask ---

    async def check_start(self, workspace: str, project: str) -> None:
        """Refuse to begin a run where none may: the append does so too, but says nothing.

        Raises `WorkspaceNotFoundError`, `ProjectNotFoundError`, and what `refuse_inactive` raises.
        """
        if (workspace, project) == (DEFAULT_WORKSPACE, DEFAULT_PROJECT):
            return  # it is there, and its state is asked when the append has lost
        await self.check(workspace, project)

    async def check(self, workspace: str, project: str) -> None:
        """Return if both are there and active. Raises as `check_start`."""
        if not re.fullmatch(NAME, project):
            raise ProjectNotFoundError
        found = await self._store.look_up(workspace, project)
        if workspace != DEFAULT_WORKSPACE and not found.has_workspace:
            raise WorkspaceNotFoundError
        if project != DEFAULT_PROJECT and not found.has_project:
            raise ProjectNotFoundError
        refuse_inactive(found.state)

    # --- workspaces ---

    async def workspaces(self, *, limit: int = 50, cursor: str | None = None) -> Page[TenantView]:
        """By name. Raises `InvalidCursorError`."""
        return await self._page(None, limit, cursor)

    async def workspace(self, workspace: str) -> TenantView:
        """One of them. Raises `WorkspaceNotFoundError`."""
        return _view(await self._workspace(workspace))

    async def create_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        """Make a workspace. Raises `TenantStateError` if it is there, `BadInputError`."""
        _check_name(workspace)
        for _ in range(_TRIES):
            log = await self._log.read(workspace)
            if workspace == DEFAULT_WORKSPACE or log.newest is not None:
                raise TenantStateError((await self._workspace(workspace)).state)
            event = e.WorkspaceCreated(actor=actor, workspace=workspace)
            made = TenantRow(workspace, WHOLE, ACTIVE, self._now(), self._now())
            if await self._store.change(_to(made, None), log.sealed([event])):
                return _view(made)
        raise _busy()

    async def suspend_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        """Suspend a workspace. Raises `WorkspaceNotFoundError`, `TenantStateError`."""
        event = e.WorkspaceSuspended(actor=actor, workspace=workspace)
        return await self._move(workspace, WHOLE, (ACTIVE,), SUSPENDED, event)

    async def restore_workspace(
        self, workspace: str, *, actor: str | None, wait_s: float = 0.0
    ) -> TenantView:
        """Let runs begin again. Waits up to `wait_s` seconds for the old ones to be cancelled.

        Raises `WorkspaceNotFoundError`, `TenantStateError`, `TenantDrainingError`.
        """
        event = e.WorkspaceRestored(actor=actor, workspace=workspace)
        return await self._restore(workspace, WHOLE, event, wait_s)

    async def close_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        """Suspend a workspace for good; it is closed once its last run is cancelled.

        Raises `WorkspaceNotFoundError`, `TenantStateError`; `BadInputError` for `default`.
        """
        if workspace == DEFAULT_WORKSPACE:
            raise BadInputError("the workspace `default` can't be closed: suspend it")
        event = e.WorkspaceClosing(actor=actor, workspace=workspace)
        return await self._move(workspace, WHOLE, (ACTIVE, SUSPENDED), CLOSING, event)

    async def finish_closing(self, workspace: str) -> None:
        """A closing workspace has no unfinished run any more: it is closed. Else nothing happens."""
        row = await self._store.get(workspace)
        if row is not None and row.state == CLOSING:
            event = e.WorkspaceClosed(workspace=workspace)
            try:
                await self._move(workspace, WHOLE, (CLOSING,), CLOSED, event)
            except TenantStateError:
                return

    # --- projects ---

    async def projects(
        self, workspace: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[TenantView]:
        """The projects of a workspace, by name. Raises `WorkspaceNotFoundError`, `InvalidCursorError`."""
        await self._workspace(workspace)
        return await self._page(workspace, limit, cursor)

    async def project(self, workspace: str, project: str) -> TenantView:
        """One of them. Raises `WorkspaceNotFoundError`, `ProjectNotFoundError`."""
        await self._workspace(workspace)
        return _view(await self._project(workspace, project))

    async def create_project(self, workspace: str, project: str, *, actor: str | None) -> TenantView:
        """Make a project. Raises `WorkspaceNotFoundError`, `TenantStateError` if it is there,
        `BadInputError`, and what `refuse_inactive` raises of the workspace.
        """
        _check_name(project)
        for _ in range(_TRIES):
            log = await self._log.read(workspace)
            _refuse_state((await self._workspace(workspace)).state)
            if project == DEFAULT_PROJECT or await self._store.get(workspace, project) is not None:
                raise TenantStateError((await self._project(workspace, project)).state)
            event = e.ProjectCreated(actor=actor, project=project, workspace=workspace)
            made = TenantRow(workspace, project, ACTIVE, self._now(), self._now())
            if await self._store.change(_to(made, None), log.sealed([event])):
                return _view(made)
        raise _busy()

    async def suspend_project(self, workspace: str, project: str, *, actor: str | None) -> TenantView:
        """Suspend a project. Raises `WorkspaceNotFoundError`, `ProjectNotFoundError`, `TenantClosingError`,
        `TenantStateError`.
        """
        event = e.ProjectSuspended(actor=actor, project=project, workspace=workspace)
        return await self._move(workspace, project, (ACTIVE,), SUSPENDED, event)

    async def restore_project(
        self, workspace: str, project: str, *, actor: str | None, wait_s: float = 0.0
    ) -> TenantView:
        """Let runs begin again. Waits up to `wait_s` seconds for the old ones to be cancelled.

        Raises as `suspend_project`, and `TenantDrainingError`.
        """
        event = e.ProjectRestored(actor=actor, project=project, workspace=workspace)
        return await self._restore(workspace, project, event, wait_s)

    # --- how ---

    async def _restore(self, workspace: str, project: str, event: Event, wait_s: float) -> TenantView:
        await (self.project(workspace, project) if project else self.workspace(workspace))
        clock = asyncio.get_running_loop()
        end = clock.time() + wait_s
        while not await self._store.is_swept(workspace, project):
            if clock.time() >= end:
                raise TenantDrainingError
            await asyncio.sleep(_LOOK_S)
        return await self._move(workspace, project, (SUSPENDED,), ACTIVE, event)

    async def _move(
        self, workspace: str, project: str, before: Sequence[str], state: str, event: Event
    ) -> TenantView:
        for _ in range(_TRIES):
            # The stream first: what changes after that is refused by the append.
            log = await self._log.read(workspace)
            row = await self._workspace(workspace)
            if project:
                if row.state in _ENDING:
                    raise TenantClosingError
                row = await self._project(workspace, project)
            if row.state not in before:
                raise TenantStateError(row.state)
            if state == ACTIVE and not await self._store.is_swept(workspace, project):
                raise TenantDrainingError  # suspended again, just now
            moved = row._replace(state=state, updated=self._now(), created=row.created or self._now())
            seen = row.state if row.created else None
            if await self._store.change(_to(moved, seen, sweeps=_is_stopping(state)), log.sealed([event])):
                if _is_stopping(state):
                    self._suspended()
                return _view(moved)
        raise _busy()

    async def _workspace(self, workspace: str) -> TenantRow:
        """Its row; one without times for a `default` that nobody has changed."""
        row = await self._store.get(workspace) if re.fullmatch(NAME, workspace) else None
        if row is None and workspace == DEFAULT_WORKSPACE:
            return TenantRow(workspace, WHOLE, ACTIVE, 0, 0)
        if row is None:
            raise WorkspaceNotFoundError
        return row

    async def _project(self, workspace: str, project: str) -> TenantRow:
        row = await self._store.get(workspace, project) if re.fullmatch(NAME, project) else None
        if row is None and project == DEFAULT_PROJECT:
            return TenantRow(workspace, project, ACTIVE, 0, 0)
        if row is None:
            raise ProjectNotFoundError
        return row

    async def _page(self, workspace: str | None, limit: int, cursor: str | None) -> Page[TenantView]:
        if cursor is not None and not re.fullmatch(NAME, cursor):
            raise InvalidCursorError("the cursor wasn't made by this list")
        after = cursor or ""
        rows = await self._store.page(workspace, after, limit + 1)
        default = await self._default(workspace)
        if default is not None and _name(default) > after:
            rows = sorted((*rows, default), key=_name)
        shown = rows[:limit]
        return Page(
            data=tuple(map(_view, shown)), next_cursor=_name(shown[-1]) if len(rows) > limit else None
        )

    async def _default(self, workspace: str | None) -> TenantRow | None:
        """What is there without a row."""
        wanted = (DEFAULT_WORKSPACE, WHOLE) if workspace is None else (workspace, DEFAULT_PROJECT)
        if await self._store.get(*wanted) is not None:
            return None
        return TenantRow(*wanted, ACTIVE, 0, 0)

    def _now(self) -> int:
        return to_micros(self._world.now())


def _is_stopping(state: str) -> bool:
    return state in (SUSPENDED, CLOSING)


def _to(row: TenantRow, seen: str | None, *, sweeps: bool = False) -> Change:
    return Change(row.workspace, row.project, seen, row.state, row.updated, sweeps)


def _name(row: TenantRow) -> str:
    return row.project or row.workspace


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise BadInputError("a name is 1 to 63 of a-z, 0-9, '.', '_', '-', and begins with a letter or digit")


def _refuse_state(state: str) -> None:
    if state == SUSPENDED:
        raise TenantSuspendedError
    if state in _ENDING:
        raise TenantClosingError


def _busy() -> StoreUnavailableError:
    return StoreUnavailableError("the workspace's stream is written to by many at once; send it again")


def _view(row: TenantRow) -> TenantView:
    return TenantView(
        workspace=row.workspace,
        project=row.project or None,
        state=row.state,
        created_at=from_micros(row.created) if row.created else None,
        updated_at=from_micros(row.updated) if row.updated else None,
    )
