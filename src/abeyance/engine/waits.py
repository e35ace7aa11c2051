"""What runs wait for, and what an operator may change of it: the `WaitService` that the outside speaks.

A change of a run that is at hand in this process is decided in its actor's turn, any other by its rows. What
is at hand may be old: what it refuses, the rows refuse, or take.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from abeyance.engine import wait_decisions
from abeyance.engine.attempts import LinkAttempts
from abeyance.engine.callers import DEFAULT_WORKSPACE
from abeyance.engine.endings import Journal
from abeyance.engine.executor import Executor
from abeyance.engine.links import link_url, new_link
from abeyance.engine.parking import check_history
from abeyance.engine.replies import UsedKey
from abeyance.engine.tenants import refuse_inactive
from abeyance.errors import (
    ConflictError,
    HistoryDamagedError,
    IdempotencyKeyInFlightError,
    RefusedError,
    RunNotFoundError,
    StoreUnavailableError,
    WaitChangeNotSupportedError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
)
from abeyance.journal.attempts import StoredAttempts
from abeyance.journal.batch import Batch, Lease
from abeyance.journal.run import CLOSED_WAIT, PendingWait, RunState, parse_token_id, replay
from abeyance.journal.store import StoredRun
from abeyance.projections.views import Page
from abeyance.projections.wait_view import WaitView, is_other_kind, wait_view

_TRIES = 20

Change = Callable[[Journal, datetime], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWaits:
    """Which open waits to list, oldest first. All filters must hold. `kind` is `token`, `timer`, `retry`,
    `code-mismatch` or `crash-loop`; `tool` is a tool's id. No `project` is every one of the workspace.
    """

    kind: str | None = None
    name: str | None = None
    tool: str | None = None
    run_id: UUID | None = None
    limit: int = 50
    cursor: str | None = None
    workspace: str = DEFAULT_WORKSPACE
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWait:
    """A wait, and what was tried at its links."""

    wait: WaitView
    attempts: StoredAttempts


class WaitLists(Protocol):
    """The following read model's query that the service hands on."""

    async def waits(self, query: ListWaits) -> Page[WaitView]:
        """Open waits, oldest first."""


class WaitService(Protocol):
    """Queries over what runs wait for, and changes of wait tokens."""

    async def list(self, query: ListWaits) -> Page[WaitView]:
        """A page of open waits, oldest first. Raises `InvalidCursorError`."""

    async def get(self, run_id: UUID, wait_id: str) -> WaitView:
        """One wait, open or closed. Raises `RunNotFoundError`, `WaitTokenNotFoundError`."""

    async def show(self, run_id: UUID, wait_id: str) -> ShownWait:
        """One wait with the newest attempts at its links. Raises as `get`."""

    async def extend(
        self,
        run_id: UUID,
        wait_id: str,
        until: datetime,
        *,
        actor: str | None = None,
        key: UsedKey | None = None,
    ) -> WaitView:
        """Move the deadline of a wait token; the wait after it.

        Raises `RunNotFoundError`, `WaitTokenNotFoundError`, `WaitTokenClosedError`,
        `WaitTokenNotReachedError`, `WaitChangeNotSupportedError`, `BadInputError`.
        """

    async def rotate(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> tuple[WaitView, str]:
        """Replace all links of a wait token by a new one; the wait after it, and the link, shown this once.

        Raises as `extend`.
        """

    async def revoke(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> WaitView:
        """Kill all links of a wait token, which stays open; the wait after it. Raises as `extend`."""


class Waits:
    """The service over one executor."""

    def __init__(self, executor: Executor, lists: WaitLists, attempts: LinkAttempts) -> None:
        self._executor = executor
        self._lists = lists
        self._attempts = attempts

    async def list(self, query: ListWaits) -> Page[WaitView]:
        """See `WaitService.list`."""
        return await self._lists.waits(query)

    async def get(self, run_id: UUID, wait_id: str) -> WaitView:
        """See `WaitService.get`."""
        stored = await self._executor.store.read_run(run_id)
        if stored is None:
            raise RunNotFoundError
        codec = self._executor.desk.codec
        try:
            found = wait_view((codec.open(row) for row in stored.events), wait_id)
        except HistoryDamagedError as error:
            raise _damaged() from error
        if found is None:
            raise WaitTokenNotFoundError
        return found

    async def show(self, run_id: UUID, wait_id: str) -> ShownWait:
        """See `WaitService.show`."""
        wait = await self.get(run_id, wait_id)
        named = parse_token_id(wait_id)
        attempts = StoredAttempts() if named is None else await self._attempts.find(run_id, *named)
        return ShownWait(wait=wait, attempts=attempts)

    async def extend(
        self,
        run_id: UUID,
        wait_id: str,
        until: datetime,
        *,
        actor: str | None = None,
        key: UsedKey | None = None,
    ) -> WaitView:
        """See `WaitService.extend`."""
        moment = until.astimezone(UTC)
        await self._change(
            run_id, wait_id, lambda run, now: wait_decisions.extend(run, wait_id, moment, now, actor), key
        )
        return await self.get(run_id, wait_id)

    async def rotate(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> tuple[WaitView, str]:
        """See `WaitService.rotate`."""
        link = new_link(self._executor.desk.world)
        await self._change(
            run_id,
            wait_id,
            lambda run, now: wait_decisions.rotate(run, wait_id, link.digest, now, actor),
            key,
        )
        url = link_url(self._executor.workshop.public_url(), link.token)
        return await self.get(run_id, wait_id), url

    async def revoke(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> WaitView:
        """See `WaitService.revoke`."""
        await self._change(
            run_id, wait_id, lambda run, now: wait_decisions.revoke(run, wait_id, now, actor), key
        )
        return await self.get(run_id, wait_id)

    async def _change(self, run_id: UUID, wait_id: str, change: Change, key: UsedKey | None) -> None:
        """Decide until an append wins. A key's row goes in with nothing but the change, so the run at hand
        doesn't take it in a turn with other things.
        """
        await self._refuse_stopped(run_id, wait_id)
        killed: list[bytes] = []

        def noted(run: Journal, now: datetime) -> None:
            before = run.state.waits.get(wait_id)
            change(run, now)
            killed[:] = _killed(before, run.state.waits.get(wait_id))

        by_rows = key is not None
        for _ in range(_TRIES):
            actor = None if by_rows else self._executor.find(run_id)
            try:
                if actor is not None:
                    await actor.submit(lambda turn: noted(turn, turn.batch.now))
                elif not await self._by_rows(run_id, wait_id, noted, key):
                    continue
            except ConflictError:
                continue
            except HistoryDamagedError as error:
                raise _damaged() from error
            except RefusedError:
                if actor is None:
                    await self._refuse_closed(run_id, wait_id)  # it may have closed since it was looked at
                    raise
                by_rows = True
                continue
            self._executor.drop_links(killed)
            return
        raise StoreUnavailableError("the run is written to by many at once; send it again")

    async def _by_rows(self, run_id: UUID, wait_id: str, change: Change, key: UsedKey | None) -> bool:
        await self._refuse_closed(run_id, wait_id)
        stored = await self._executor.store.read_run(run_id)
        if stored is None:
            raise RunNotFoundError
        state = self._checked(stored)
        batch = Batch(
            self._executor.desk, await self._executor.keys.get(stored.control.key_id), run_id, state
        )
        change(batch, batch.now)
        batch.reply = None if key is None else key.row
        won = await self._append(stored, batch)
        if not won and key is not None and await key.find() is not None:
            raise IdempotencyKeyInFlightError
        if won and stored.control.lease_id is not None:
            self._executor.hint(run_id)
            await self._executor.tell(run_id)
        return won

    def _checked(self, stored: StoredRun) -> RunState:
        desk = self._executor.desk
        try:
            check_history(desk, stored)
            return replay(desk.codec.open(row) for row in stored.events)
        except HistoryDamagedError as error:
            raise _damaged() from error

    async def _append(self, stored: StoredRun, batch: Batch) -> bool:
        """Append to a run as it is: whoever holds it goes on holding it, and a parked run is looked at when
        it would have been.
        """
        control, barrier = stored.control, self._executor.testing_only_barrier
        held = control.lease_id is not None
        append = batch.append(
            seen=control,
            lease=Lease(control.lease_id, control.lease_until or 0) if control.lease_id is not None else None,
            definition=control.definition,
            look_again=control.due if batch.state.mismatch is not None and not held else None,
        )
        topic = append.events[0].topic
        if barrier is not None:
            await barrier(f"append:{topic}", append.run_id)
        won = await self._executor.append(append)
        if barrier is not None:
            await barrier(f"stored:{topic}", append.run_id)
        return won

    async def _refuse_stopped(self, run_id: UUID, wait_id: str) -> None:
        """Refuse where nothing goes on: the wait is about to be cancelled."""
        named = parse_token_id(wait_id)
        stored = None if named is None else await self._executor.store.find_wait(run_id, *named)
        if stored is not None:
            refuse_inactive(stored.tenant)

    async def _refuse_closed(self, run_id: UUID, wait_id: str) -> None:
        """Refuse what the run's open waits can't tell: closed waits, other kinds, what isn't there."""
        store, named = self._executor.store, parse_token_id(wait_id)
        stored = None if named is None else await store.find_wait(run_id, *named)
        if stored is None:
            if await store.read_record(run_id) is None:
                raise RunNotFoundError
            raise WaitChangeNotSupportedError if is_other_kind(wait_id) else WaitTokenNotFoundError
        if stored.wait.state in CLOSED_WAIT:
            raise WaitTokenClosedError(stored.wait.state)


def _killed(before: PendingWait | None, after: PendingWait | None) -> Sequence[bytes]:
    if before is None or after is None:
        return ()
    return [digest for digest in before.links if digest not in after.links]


def _damaged() -> StoreUnavailableError:
    return StoreUnavailableError("the run's history doesn't hold: an operator must look at it")
