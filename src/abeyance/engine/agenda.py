"""What one process does again and again: claim runs that are due, renew its leases, look, listen.

* The agenda is the control rows' `due`: a run that is ready, a deadline, a lease that ran out are one query.
* Wake-ups are hints; polling finds everything within `poll_s`.
* A workspace that holds most of a process's places gets more only where nobody else's run is due.
* Parked runs are offered to new code when a process starts; else they are looked at once a minute.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from abeyance.engine.actor import Actor
from abeyance.engine.crash_loops import MOST_LOST, park_crash_loop
from abeyance.errors import StoreUnavailableError
from abeyance.journal.batch import Lease
from abeyance.journal.store import Claim, ClaimRequest
from abeyance.world import to_micros

if TYPE_CHECKING:
    from abeyance.engine.executor import Executor

_log = logging.getLogger("abeyance.executor")
_CLAIMED_AT_ONCE = 32
_SHARE_OF_A_WORKSPACE = 0.8


class Agenda:
    """The loops of one executor."""

    def __init__(self, executor: "Executor") -> None:
        self._executor = executor
        self._hinted: set[UUID] = set()
        self._wake = asyncio.Event()
        self._claiming: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def hint(self, run_id: UUID) -> None:
        """Claim this run soon, if it can be."""
        self._hinted.add(run_id)
        self._wake.set()

    async def start(self) -> None:
        """Begin to claim, to renew and to listen."""
        self._tasks = [asyncio.create_task(self._hint_loop())]
        if self._executor.limits.execute:
            await self._offer_parked()
            self._claiming = asyncio.create_task(self._claim_loop())
            loops = (self._renew_loop(), self._watch_loop())
            self._tasks += [self._claiming, *map(asyncio.create_task, loops)]

    async def stop(self) -> None:
        """End the loops. What a claim that is under way gets is given back: the executor drains."""
        self._wake.set()
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=self._executor.limits.drain_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _offer_parked(self) -> None:
        """This process may have the code that runs were parked for."""
        executor = self._executor
        try:
            await executor.store.offer(executor.long_due())
        except StoreUnavailableError:
            _log.warning("parked runs couldn't be offered; they are looked at within a minute")

    async def _claim_loop(self) -> None:
        executor = self._executor
        while not executor.draining:
            self._wake.clear()
            claimed = 0
            try:
                claimed = await self._claim()
            except StoreUnavailableError:
                _log.warning("the store can't be used; trying again")
            except Exception:
                _log.exception("claiming failed")
            if claimed == 0 and not executor.draining:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), executor.limits.poll_s)

    async def _claim(self) -> int:
        executor = self._executor
        room = min(executor.limits.max_runs - len(executor.leases), _CLAIMED_AT_ONCE)
        if room <= 0:
            return 0
        hinted, self._hinted = list(self._hinted), set()
        passed = self._greedy_workspaces()
        claimed = await self._take(room, hinted, passed) if passed else 0
        if claimed < room:
            claimed += await self._take(room - claimed, hinted, ())
        return claimed

    def _greedy_workspaces(self) -> tuple[str, ...]:
        """Those that hold so much of this process that others come first."""
        executor = self._executor
        most = executor.limits.max_runs * _SHARE_OF_A_WORKSPACE
        if len(executor.leases) < most:
            return ()
        held = Counter(actor.workspace for actor in executor.leases.values())
        return tuple(name for name, count in held.items() if name is not None and count >= most)

    async def _take(self, room: int, hinted: list[UUID], passed: tuple[str, ...]) -> int:
        executor = self._executor
        leases = [executor.new_lease() for _ in range(room)]
        claims = await executor.store.claim(
            ClaimRequest(
                now=to_micros(executor.desk.world.now()),
                lease_until=leases[0].until,
                room=room,
                lease_ids=[lease.id for lease in leases],
                definitions=executor.definitions.digests(),
                hinted=hinted,
                grace_micros=executor.grace_micros,
                passed=passed,
            )
        )
        for claim in claims:
            await self._go_on(claim, leases[0].until)
        return len(claims)

    async def _go_on(self, claim: Claim, until: int) -> None:
        executor = self._executor
        if executor.draining:
            now = to_micros(executor.desk.world.now())
            await executor.store.release(claim.run_id, claim.lease_id, seen_version=0, due=now)
        elif claim.lost >= MOST_LOST:
            await park_crash_loop(executor, claim)
        else:
            executor.go_on(claim.run_id, Lease(claim.lease_id, until))

    async def _renew_loop(self) -> None:
        executor = self._executor
        while True:
            await asyncio.sleep(executor.limits.lease_s / 4)
            executor.trim()
            held = dict(executor.leases)
            if not held:
                continue
            until = to_micros(executor.desk.world.now() + timedelta(seconds=executor.limits.lease_s))
            try:
                kept = await executor.store.renew(list(held), until)
            except StoreUnavailableError:
                continue
            except Exception:
                _log.exception("leases couldn't be renewed")
                continue
            for lease_id, actor in held.items():
                if lease_id not in kept and actor.lease is not None and actor.lease.id == lease_id:
                    executor.lose(actor)

    async def _watch_loop(self) -> None:
        """Find the answers that others took for runs that this process is busy with, if no hint told."""
        executor = self._executor
        while True:
            await asyncio.sleep(executor.limits.poll_s)
            for actor in [each for each in executor.leases.values() if each.waits_beside_work]:
                try:
                    await self._watch(actor)
                except StoreUnavailableError:
                    break
                except Exception:
                    _log.exception("run %s couldn't be looked at", actor.run_id)

    async def _watch(self, actor: Actor) -> None:
        state = None if actor.session is None else actor.session.state
        if state is None:
            return
        store = self._executor.store
        rows, _ = await store.read_events(actor.run_id, after=state.version, limit=1, contents=False)
        known = None if actor.session is None else actor.session.state
        if rows and known is not None and known.version == state.version:
            actor.look_again()

    async def _hint_loop(self) -> None:
        executor = self._executor
        while True:
            hints = executor.store.hints()
            try:
                async for run_id in hints:
                    executor.hint(run_id)
            except StoreUnavailableError:
                pass
            except Exception:
                _log.exception("listening for hints failed")
            finally:
                close = getattr(hints, "close", None)  # one that has a connection of its own
                if close is not None:
                    await close()
            await asyncio.sleep(executor.limits.poll_s)
