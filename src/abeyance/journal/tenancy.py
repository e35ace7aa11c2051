"""Workspaces and projects: the port to their rows, and to the runs of one of them.

A row is changed with the event of the workspace's stream that says so, in one transaction, and only while
stream and state are as they were when the event was signed: of two changes at once one wins, and the other
is decided again. Appends, links and claims read the row in their own statement, so a change holds from its
commit.

**Sweeps.** Who suspends a tenant leaves a row that says: its runs are to be cancelled. Any process takes the
work by moving the row's `due` on, and holds it until then; a process that dies loses nothing. The row goes
once no run can be left that was begun beside the change.
"""

from typing import NamedTuple, Protocol
from uuid import UUID

from abeyance.journal.api_keys import StreamAppend

WHOLE = ""
"""Stands for the project where a workspace is meant."""


class TenantRow(NamedTuple):
    """A workspace (`project` is `WHOLE`) or a project. `state` is `active`, `suspended`, `closing` or
    `closed`; times are microseconds since the epoch.
    """

    workspace: str
    project: str
    state: str
    created: int
    updated: int


class Tenant(NamedTuple):
    """What a start must know: whether there are rows of a workspace and of a project in it, and what the two
    say: `active`, `tenant-suspended`, `tenant-closing` or `project-suspended`.
    """

    has_workspace: bool
    has_project: bool
    state: str


class Change(NamedTuple):
    """A new state of a workspace or project. `seen` is its state before, `None` where there is no row.
    `sweeps`: its runs are to be cancelled from now on.
    """

    workspace: str
    project: str
    seen: str | None
    state: str
    moment: int
    sweeps: bool


class Sweep(NamedTuple):
    """The cancelling of a tenant's runs. Whoever has it holds it until `due`. `started`: when the tenant was
    suspended; `passed`: when a search first found no run of it, `None` before.
    """

    workspace: str
    project: str
    started: int
    due: int
    passed: int | None


class Place(NamedTuple):
    """How far a search for unfinished runs has come: first those that are ready, then those that wait."""

    waiting: bool = False
    due: int = -(2**63)
    run_id: UUID = UUID(int=0)


class FoundRuns(NamedTuple):
    """A page of a search. `next` is where to go on, `None` at the end."""

    runs: list[UUID]
    next: Place | None


class TenantStore(Protocol):
    """The rows of one journal. All methods raise `StoreUnavailableError`; then nothing was written."""

    async def get(self, workspace: str, project: str = WHOLE) -> TenantRow | None:
        """A workspace's or a project's row."""

    async def page(self, workspace: str | None, after: str, limit: int) -> list[TenantRow]:
        """Workspaces, or the projects of one, whose name is greater than `after`, by name."""

    async def look_up(self, workspace: str, project: str) -> Tenant:
        """See `Tenant`: one read."""

    async def change(self, change: Change, append: StreamAppend) -> bool:
        """Put the new state with its events; `False` if stream or state has moved on."""

    async def is_swept(self, workspace: str, project: str) -> bool:
        """Whether a search has found no unfinished run of a tenant since it was suspended."""

    async def take_sweep(self, now: int, until: int) -> Sweep | None:
        """A sweep that is due, which the caller now holds until `until`. Nothing is written if none is."""

    async def put_back(self, sweep: Sweep, due: int, passed: int | None) -> Sweep | None:
        """Hold a sweep until another `due`, or let it rest until then; `None` if another has it."""

    async def end_sweep(self, sweep: Sweep) -> None:
        """Nothing is left to be done; unless the caller doesn't hold it any more."""

    async def unfinished(self, workspace: str, project: str, place: Place, scan: int) -> FoundRuns:
        """The unfinished runs of a tenant among the next `scan` unfinished ones of all, after `place`."""
