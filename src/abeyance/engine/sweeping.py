"""The runs of suspended tenants are cancelled: page by page, paused ones included, by any process.

The state was changed before, so no new run begins, none is claimed, no answer is taken. A search goes over
the unfinished runs of the deployment, and is repeated until it finds none of the tenant: what a killed
process left is found by the next search. A run whose append saw the state from before may still come a
moment later, so the search is repeated until no such append can be under way (docs/adr/0011).

One process has a sweep at a time; if two did, each run's append would still be won by one. A damaged run
can't be signed over: it stays as it is, with an alarm, and nobody goes on with it.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from abeyance.engine import decisions
from abeyance.engine.executor import Executor
from abeyance.engine.tenants import Tenants
from abeyance.errors import (
    ConflictError,
    ContentErasedError,
    HistoryDamagedError,
    RunAlreadyTerminalError,
    RunNotFoundError,
    StoreUnavailableError,
    UnknownEventError,
)
from abeyance.journal.tenancy import WHOLE, Place, Sweep, TenantStore
from abeyance.world import to_micros

WORKSPACE_CAUSE = "workspace-suspended"
PROJECT_CAUSE = "project-suspended"

_HELD = timedelta(seconds=15)
_AGAIN = timedelta(seconds=5)
# Longer than any append may take.
_APPENDS_END = timedelta(minutes=2)
_SCANNED_AT_ONCE = 1_000
_CANCELLED_AT_ONCE = 16
_TRIES = 50
_log = logging.getLogger("abeyance.sweeping")


class Sweeper:
    """Cancels the runs of suspended tenants, in this process's turns. `page` runs are looked at at once."""

    def __init__(
        self, executor: Executor, tenants: Tenants, store: TenantStore, *, page: int = _SCANNED_AT_ONCE
    ) -> None:
        self._executor = executor
        self._tenants = tenants
        self._store = store
        self._page = page
        self._room = asyncio.Semaphore(_CANCELLED_AT_ONCE)

    async def sweep(self) -> bool:
        """Take one sweep that is due and search once; whether there was one. Raises
        `StoreUnavailableError`.
        """
        now = self._executor.desk.world.now()
        sweep = await self._store.take_sweep(to_micros(now), to_micros(now + _HELD))
        if sweep is None:
            return False
        began, found, place = now, 0, Place()
        while True:
            page = await self._store.unfinished(sweep.workspace, sweep.project, place, self._page)
            found += await self._cancel_all(page.runs, sweep)
            if page.next is None:
                break
            place = page.next
            held = await self._store.put_back(sweep, self._from_now(_HELD), sweep.passed)
            if held is None:
                return True  # it was restored, or another process has it
            sweep = held
        await self._rest(sweep, began=to_micros(began), clean=not found)
        return True

    async def _rest(self, sweep: Sweep, *, began: int, clean: bool) -> None:
        """The search is over; the next one follows at once if this one found runs."""
        passed = sweep.passed if sweep.passed is not None or not clean else began
        if clean and sweep.project == WHOLE:
            await self._tenants.finish_closing(sweep.workspace)
        if clean and began >= sweep.started + _APPENDS_END // timedelta(microseconds=1):
            await self._store.end_sweep(sweep)
            return
        await self._store.put_back(sweep, self._from_now(_AGAIN if clean else timedelta(0)), passed)

    async def _cancel_all(self, runs: Sequence[UUID], sweep: Sweep) -> int:
        cause = WORKSPACE_CAUSE if sweep.project == WHOLE else PROJECT_CAUSE
        return sum(await asyncio.gather(*(self._cancel(run_id, cause) for run_id in runs)))

    async def _cancel(self, run_id: UUID, cause: str) -> bool:
        """End a run as cancelled; `False` if it can't be written to."""
        async with self._room:
            for _ in range(_TRIES):
                held = self._executor.find(run_id)
                try:
                    if held is not None:
                        await held.submit(lambda turn: decisions.cancel(turn, cause))
                    elif not await self._executor.cancel_stored(run_id, cause):
                        continue
                    return True
                except ConflictError:
                    continue
                except (RunAlreadyTerminalError, RunNotFoundError):
                    return True
                except (HistoryDamagedError, UnknownEventError, ContentErasedError) as error:
                    _log.error("ALARM: run %s of a suspended tenant can't be cancelled: %s", run_id, error)
                    return False
            raise StoreUnavailableError("a run is written to by many at once; the next search cancels it")

    def _from_now(self, time: timedelta) -> int:
        return to_micros(self._executor.desk.world.now() + time)
