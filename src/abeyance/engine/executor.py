"""The executor of one process: which runs it holds, which it may take, what it keeps warm.

* The agenda is the control rows' `due`: a run that is ready, a deadline, a lease that ran out are one query.
* Wake-ups are hints; polling finds everything within `poll_s`.
* Recently suspended runs stay in a bounded cache, so that a quick answer needs no reload. What they believe
  is checked by every append; `hot_runs=0` turns the cache off.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from abeyance.engine import decisions
from abeyance.engine.actor import Actor, Barrier
from abeyance.engine.definitions import Definitions
from abeyance.engine.effects import Workshop
from abeyance.engine.keyring import KeyRing
from abeyance.engine.parking import LOOK_AGAIN_MICROS, park_damaged, park_mismatch, put_back
from abeyance.engine.turn import Session, Turn, digest16
from abeyance.errors import (
    ContentErasedError,
    DivergenceError,
    HistoryDamagedError,
    RunAlreadyTerminalError,
    RunNotFoundError,
    StoreUnavailableError,
    UnknownEventError,
)
from abeyance.journal.append_queue import AppendQueue
from abeyance.journal.batch import Batch, Desk, Lease, due_of
from abeyance.journal.events import CallStarted, CodeMatched, Started
from abeyance.journal.run import ENDED, replay
from abeyance.journal.store import Append, ClaimRequest, JournalStore, StoredRun
from abeyance.world import to_micros

_log = logging.getLogger("abeyance.executor")
_CLAIMED_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one process takes on. Times in seconds."""

    lease_s: float = 60.0
    poll_s: float = 1.0
    grace_s: float = 60.0
    max_runs: int = 1000
    hot_runs: int = 500
    hot_bytes: int = 64 * 1024 * 1024
    hot_s: float = 60.0
    drain_s: float = 5.0
    execute: bool = True
    appends_in_flight: int = 2


class Warm(NamedTuple):
    """Since when a run waits in memory (monotonic seconds), and about how much it holds there."""

    since: float
    size_bytes: int


class Executor:
    """See the module. `testing_only_barrier` is awaited at the named places where a crash must lose
    nothing."""

    def __init__(
        self,
        *,
        desk: Desk,
        store: JournalStore,
        keys: KeyRing,
        definitions: Definitions,
        workshop: Workshop,
        limits: Limits,
        testing_only_barrier: Barrier | None = None,
    ) -> None:
        self.desk = desk
        self.store = store
        self._appends = AppendQueue(store, in_flight=limits.appends_in_flight)
        self.keys = keys
        self.definitions = definitions
        self._digests = frozenset(definitions.digests())
        self.workshop = workshop
        self.limits = limits
        self.testing_only_barrier = testing_only_barrier
        self.actors: dict[UUID, Actor] = {}
        self._warm: OrderedDict[UUID, Warm] = OrderedDict()
        self._warm_bytes = 0
        self._leases: dict[UUID, Actor] = {}
        self._links: dict[bytes, tuple[UUID, str]] = {}
        self._links_of: dict[UUID, list[bytes]] = {}
        self._hinted: set[UUID] = set()
        self._wake = asyncio.Event()
        self._claiming: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._draining = False

    # --- what actors ask of their host ---

    @property
    def draining(self) -> bool:
        """See `Host.draining`."""
        return self._draining

    async def append(self, append: Append) -> bool:
        """See `Host.append`."""
        return await self._appends.append(append)

    def new_lease(self) -> Lease:
        """See `Host.new_lease`."""
        world = self.desk.world
        until = to_micros(world.now() + timedelta(seconds=self.limits.lease_s))
        return Lease(UUID(bytes=world.random_bytes(16)), until)

    def holds(self, actor: Actor, before: Lease | None, now: Lease | None) -> None:
        """See `Host.holds`."""
        if before is not None and self._leases.get(before.id) is actor:
            del self._leases[before.id]
        if now is not None:
            self._leases[now.id] = actor

    def rested(self, actor: Actor) -> None:
        """See `Host.rested`: keep a suspended run warm, forget the others."""
        session = actor.session
        if session is not None and session.state is not None and not actor.lost and not session.state.ended:
            self._cool_down(actor.run_id)
            size = session.contents.size_bytes()
            self._warm[actor.run_id] = Warm(self.desk.world.monotonic(), size)
            self._warm_bytes += size
            self._trim()
            return
        self._forget(actor)

    async def let_go(self, actor: Actor) -> None:
        """See `Host.let_go`."""
        lease, state = actor.lease, None if actor.session is None else actor.session.state
        if lease is None:
            return
        now, seen = to_micros(self.desk.world.now()), 0
        due: int | None = now
        if state is not None:
            seen, due = state.version, due_of(state.status, None, now=now, deadline=state.next_deadline())
        await self.store.release(actor.run_id, lease.id, seen_version=seen, due=due)
        if actor.lease is lease:
            actor.hold(None)
        actor.forget_session()  # a command that came meanwhile reads the run again

    async def load(self, run_id: UUID) -> Session | None:
        """See `Host.load`. A run whose code doesn't fit is parked; a damaged one is left alone, with an
        alarm."""
        stored = await self.store.read_run(run_id)
        if stored is None or stored.control.status in ENDED:
            return None
        return await self._session(stored)

    # --- starting, finding, forgetting ---

    def adopt(self, run_id: UUID, session: Session | None, lease: Lease | None) -> Actor:
        """The actor of a run that this process holds from now on."""
        actor = Actor(self, run_id, session)
        self.actors[run_id] = actor
        actor.hold(lease)
        return actor

    async def begin(self, session: Session, begin: Callable[[Turn], None]) -> Actor | None:
        """Store a new run; its actor if this process executes it, else `None` after a hint to those who
        do."""
        if self.has_room():
            actor = self.adopt(session.run_id, session, None)
            await actor.submit(begin)
            return actor
        turn = Turn(session)
        begin(turn)
        append = turn.batch.append(seen=None, lease=None, definition=digest16(session.definition))
        session.close()
        if not await self.append(append):
            raise StoreUnavailableError("the run's id is taken; start it again")
        self.hint(session.run_id)
        await self.tell(session.run_id)
        return None

    async def cancel_stored(self, run_id: UUID, actor: str | None) -> bool:
        """Cancel a run that isn't at hand, whoever executes it; `False` if something else came first."""
        stored = await self.store.read_run(run_id)
        if stored is None:
            raise RunNotFoundError
        state = replay(self.desk.codec.open(row) for row in stored.events)
        if state.ended:
            raise RunAlreadyTerminalError(state.status)
        key = await self.keys.get(stored.control.key_id)
        batch = Batch(self.desk, key, run_id, state)
        decisions.cancel_events(batch, actor)
        won = await self.append(
            batch.append(seen=stored.control, lease=None, definition=stored.control.definition)
        )
        if won and stored.control.lease_id is not None:
            await self.tell(run_id)
        return won

    def find(self, run_id: UUID) -> Actor | None:
        """The actor of a run that this process has at hand."""
        actor = self.actors.get(run_id)
        return None if actor is None or actor.lost else actor

    def link(self, digest: bytes) -> tuple[Actor, str] | None:
        """The actor and wait that a link answers, if the run is at hand."""
        found = self._links.get(digest)
        actor = None if found is None else self.find(found[0])
        return None if found is None or actor is None else (actor, found[1])

    def know_link(self, digest: bytes, run_id: UUID, wait_id: str) -> None:
        """Remember which wait a link answers, as long as the run is at hand."""
        self._links[digest] = (run_id, wait_id)
        self._links_of.setdefault(run_id, []).append(digest)

    def go_on(self, run_id: UUID, lease: Lease) -> Actor:
        """Execute a run that this process has just claimed."""
        known = self.find(run_id)
        if known is not None:
            known.claimed(lease)
            actor = known
        else:
            actor = self.adopt(run_id, None, lease)
        actor.post(_taken_up)
        return actor

    def perhaps_go_on(self, run_id: UUID, lease: Lease) -> None:
        """An append that would give the run to this process may be stored: look."""
        known = self.find(run_id)
        if known is None or known.lease is None:
            self.go_on(run_id, lease)

    def has_code(self, definition: bytes) -> bool:
        """Whether the definition with these first 16 bytes of its digest is loaded."""
        return definition in self._digests

    def has_room(self) -> bool:
        """Whether another run may be taken up."""
        return self.limits.execute and not self._draining and len(self._leases) < self.limits.max_runs

    def hint(self, run_id: UUID) -> None:
        """Look at this run soon."""
        actor = self.find(run_id)
        if actor is not None and actor.lease is not None:
            actor.look_again()
            return
        self._hinted.add(run_id)
        self._wake.set()

    async def tell(self, run_id: UUID) -> None:
        """Hint at this run to other processes. What is stored is stored, whether they hear of it or not."""
        try:
            await self.store.hint([run_id])
        except StoreUnavailableError:
            _log.warning("no hint at run %s could be sent; a poll finds it", run_id)

    def _cool_down(self, run_id: UUID) -> None:
        known = self._warm.pop(run_id, None)
        if known is not None:
            self._warm_bytes -= known.size_bytes

    def _trim(self) -> None:
        """Forget the runs that have been warm longest, beyond the limits."""
        limits, since = self.limits, self.desk.world.monotonic() - self.limits.hot_s
        while self._warm:
            run_id, oldest = next(iter(self._warm.items()))
            fits = len(self._warm) <= limits.hot_runs and self._warm_bytes <= limits.hot_bytes
            if fits and oldest.since > since:
                return
            actor = self.actors.get(run_id)
            if actor is None or actor.busy or actor.lease is not None:
                self._cool_down(run_id)
            else:
                self._forget(actor)

    def _forget(self, actor: Actor) -> None:
        """Forget what is at hand of a run; another actor may have taken the run up since."""
        if self.actors.get(actor.run_id) is actor:
            del self.actors[actor.run_id]
            self._cool_down(actor.run_id)
            for digest in self._links_of.pop(actor.run_id, ()):
                self._links.pop(digest, None)
        actor.hold(None)
        actor.close()

    async def _session(self, stored: StoredRun) -> Session | None:
        control = stored.control
        try:
            first = self.desk.codec.open(stored.events[0])
            started = first.event
            if not isinstance(started, Started):
                raise HistoryDamagedError(
                    "a run's stream begins with another event", where=str(control.run_id)
                )
            definition = self.definitions.find(
                started.definition.kind, started.definition.id, started.definition.version
            )
            if definition is None:
                await put_back(self, stored, LOOK_AGAIN_MICROS)
                return None
            key = await self.keys.get(control.key_id)
            session = Session(self.desk, key, control.run_id, definition)
            for _ in session.load(stored):
                await asyncio.sleep(0)
        except DivergenceError as error:
            await park_mismatch(self, stored, error)
            return None
        except (HistoryDamagedError, UnknownEventError, ContentErasedError) as error:
            await park_damaged(self, stored, error)
            return None
        self._know_links(session)
        return session

    def _know_links(self, session: Session) -> None:
        for wait_id, events in session.opened.items():
            for recorded in events:
                if isinstance(recorded.event, CallStarted) and recorded.event.link is not None:
                    self.know_link(bytes.fromhex(recorded.event.link), session.run_id, wait_id)

    # --- the loops ---

    async def start(self) -> None:
        """Begin to claim, to renew and to listen."""
        self._tasks = [asyncio.create_task(self._hint_loop())]
        if self.limits.execute:
            self._claiming = asyncio.create_task(self._claim_loop())
            loops = (self._renew_loop(), self._watch_loop())
            self._tasks += [self._claiming, *map(asyncio.create_task, loops)]

    async def stop(self) -> None:
        """Stop claiming, give running calls a few seconds, release what is held. Once is enough."""
        if self._draining:
            return
        self._draining = True
        self._wake.set()
        if self._claiming is not None:
            # What a claim that is under way gets must be given back.
            await asyncio.wait([self._claiming], timeout=self.limits.drain_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        drains = [
            actor.drain(self.limits.drain_s)
            for actor in list(self.actors.values())
            if actor.busy or actor.lease
        ]
        for result in await asyncio.gather(*drains, return_exceptions=True):
            if isinstance(result, BaseException):
                _log.warning("a run couldn't be given back: %s", type(result).__name__)
        for actor in list(self.actors.values()):
            self._forget(actor)

    async def _claim_loop(self) -> None:
        while not self._draining:
            self._wake.clear()
            claimed = 0
            try:
                claimed = await self._claim()
            except StoreUnavailableError:
                _log.warning("the store can't be used; trying again")
            except Exception:
                _log.exception("claiming failed")
            if claimed == 0 and not self._draining:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self.limits.poll_s)

    async def _claim(self) -> int:
        room = self.limits.max_runs - len(self._leases)
        if room <= 0:
            return 0
        hinted, self._hinted = list(self._hinted), set()
        leases = [self.new_lease() for _ in range(min(room, _CLAIMED_AT_ONCE))]
        now = to_micros(self.desk.world.now())
        claims = await self.store.claim(
            ClaimRequest(
                now=now,
                lease_until=leases[0].until,
                room=len(leases),
                lease_ids=[lease.id for lease in leases],
                definitions=self.definitions.digests(),
                hinted=hinted,
                grace_micros=int(self.limits.grace_s * 1e6),
            )
        )
        for claim in claims:
            if self._draining:
                await self.store.release(claim.run_id, claim.lease_id, seen_version=0, due=now)
            else:
                self.go_on(claim.run_id, Lease(claim.lease_id, leases[0].until))
        return len(claims)

    async def _renew_loop(self) -> None:
        while True:
            await asyncio.sleep(self.limits.lease_s / 4)
            self._trim()
            held = dict(self._leases)
            if not held:
                continue
            until = to_micros(self.desk.world.now() + timedelta(seconds=self.limits.lease_s))
            try:
                kept = await self.store.renew(list(held), until)
            except StoreUnavailableError:
                continue
            except Exception:
                _log.exception("leases couldn't be renewed")
                continue
            for lease_id, actor in held.items():
                if lease_id not in kept and actor.lease is not None and actor.lease.id == lease_id:
                    actor.give_up()
                    self._forget(actor)

    async def _watch_loop(self) -> None:
        """Find the answers that others took for runs that this process is busy with, if no hint told."""
        while True:
            await asyncio.sleep(self.limits.poll_s)
            for actor in [each for each in self._leases.values() if each.waits_beside_work]:
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
        rows, _ = await self.store.read_events(actor.run_id, after=state.version, limit=1, contents=False)
        known = None if actor.session is None else actor.session.state
        if rows and known is not None and known.version == state.version:
            actor.look_again()

    async def _hint_loop(self) -> None:
        while True:
            hints = self.store.hints()
            try:
                async for run_id in hints:
                    self.hint(run_id)
            except StoreUnavailableError:
                pass
            except Exception:
                _log.exception("listening for hints failed")
            finally:
                close = getattr(hints, "close", None)  # one that has a connection of its own
                if close is not None:
                    await close()
            await asyncio.sleep(self.limits.poll_s)


def _taken_up(turn: Turn) -> None:
    if turn.state.mismatch is not None:
        turn.add(CodeMatched(code=turn.session.definition.digest))
    decisions.recover(turn)
    decisions.fire_deadlines(turn)
