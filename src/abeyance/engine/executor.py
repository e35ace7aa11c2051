"""The executor of one process: which runs it holds, which it may take, what it keeps warm.

* Recently suspended runs stay in a bounded cache, so that a quick answer needs no reload. What they believe
  is checked by every append; `hot_runs=0` turns the cache off.
* What it takes up by itself, and when, is in `abeyance.engine.agenda`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from abeyance.engine.actor import Actor
from abeyance.engine.agenda import Agenda
from abeyance.engine.definitions import Definitions
from abeyance.engine.effects import Workshop
from abeyance.engine.endings import cancel_run
from abeyance.engine.host import Barrier
from abeyance.engine.keyring import KeyRing
from abeyance.engine.known_links import KnownLink, KnownLinks
from abeyance.engine.taking_up import open_session, taken_up
from abeyance.engine.turn import Session, Turn, digest16
from abeyance.engine.warm import WarmRuns
from abeyance.errors import RunAlreadyTerminalError, RunNotFoundError, StoreUnavailableError
from abeyance.journal.append_queue import AppendQueue
from abeyance.journal.batch import Batch, Desk, Lease, due_of
from abeyance.journal.run import ENDED, replay
from abeyance.journal.store import Append, JournalStore, ReplyRow
from abeyance.world import to_micros

_log = logging.getLogger("abeyance.executor")


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
        self.leases: dict[UUID, Actor] = {}
        self._warm = WarmRuns(most=limits.hot_runs, most_bytes=limits.hot_bytes, seconds=limits.hot_s)
        self._links = KnownLinks()
        self._agenda = Agenda(self)
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
        if before is not None and self.leases.get(before.id) is actor:
            del self.leases[before.id]
        if now is not None:
            self.leases[now.id] = actor

    def rested(self, actor: Actor) -> None:
        """See `Host.rested`: keep a suspended run warm, forget the others."""
        session = actor.session
        if session is not None and session.state is not None and not actor.lost and not session.state.ended:
            self._warm.keep(actor.run_id, self.desk.world.monotonic(), session.contents.size_bytes())
            self.trim()
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
        session = await open_session(self, stored)
        if session is not None:
            self._know_links(session)
        return session

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

    async def cancel_stored(self, run_id: UUID, actor: str | None, reply: ReplyRow | None = None) -> bool:
        """Cancel a run by its rows, whoever executes it; `False` if something else came first. `reply` is the
        idempotency key of the request.
        """
        stored = await self.store.read_run(run_id)
        if stored is None:
            raise RunNotFoundError
        state = replay(self.desk.codec.open(row) for row in stored.events)
        if state.ended:
            raise RunAlreadyTerminalError(state.status)
        key = await self.keys.get(stored.control.key_id)
        batch = Batch(self.desk, key, run_id, state)
        cancel_run(batch, actor)
        batch.reply = reply
        if self.testing_only_barrier is not None:
            await self.testing_only_barrier("append:cancelled", run_id)
        won = await self.append(
            batch.append(seen=stored.control, lease=None, definition=stored.control.definition)
        )
        if self.testing_only_barrier is not None:
            await self.testing_only_barrier("stored:cancelled", run_id)
        if won and stored.control.lease_id is not None:
            await self.tell(run_id)
        return won

    def find(self, run_id: UUID) -> Actor | None:
        """The actor of a run that this process has at hand."""
        actor = self.actors.get(run_id)
        return None if actor is None or actor.lost else actor

    def link(self, digest: bytes) -> KnownLink | None:
        """The wait that a link answers, if its run is at hand."""
        known = self._links.find(digest)
        return known if known is not None and self.find(known.run_id) is not None else None

    def know_link(self, digest: bytes, run_id: UUID, wait_id: str) -> None:
        """See `Host.know_link`."""
        self._links.know(digest, run_id, wait_id)

    def drop_links(self, digests: Iterable[bytes]) -> None:
        """These links were killed: whoever comes with one is told what the rows say."""
        for digest in digests:
            self._links.drop(digest)

    def go_on(self, run_id: UUID, lease: Lease) -> Actor:
        """Execute a run that this process has just claimed."""
        known = self.find(run_id)
        if known is not None:
            known.claimed(lease)
            actor = known
        else:
            actor = self.adopt(run_id, None, lease)
        actor.post(taken_up)
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
        return self.limits.execute and not self._draining and len(self.leases) < self.limits.max_runs

    def hint(self, run_id: UUID) -> None:
        """Look at this run soon."""
        actor = self.find(run_id)
        if actor is not None and actor.lease is not None:
            actor.look_again()
            return
        self._agenda.hint(run_id)

    async def tell(self, run_id: UUID) -> None:
        """Hint at this run to other processes. What is stored is stored, whether they hear of it or not."""
        try:
            await self.store.hint([run_id])
        except StoreUnavailableError:
            _log.warning("no hint at run %s could be sent; a poll finds it", run_id)

    def trim(self) -> None:
        """Forget the runs that have been warm longest, beyond the limits."""
        self._warm.trim(self.desk.world.monotonic(), self._forget_warm)

    def _forget_warm(self, run_id: UUID) -> None:
        actor = self.actors.get(run_id)
        if actor is not None and not actor.busy and actor.lease is None:
            self._forget(actor)

    def lose(self, actor: Actor) -> None:
        """Somebody else holds the run now."""
        actor.give_up()
        self._forget(actor)

    @property
    def grace_micros(self) -> int:
        """How long a run waits for a process that has its definition before any process may look."""
        return int(self.limits.grace_s * 1e6)

    def long_due(self) -> int:
        """See `Retrier.long_due`."""
        return to_micros(self.desk.world.now()) - self.grace_micros

    def _forget(self, actor: Actor) -> None:
        """Forget what is at hand of a run; another actor may have taken the run up since."""
        if self.actors.get(actor.run_id) is actor:
            del self.actors[actor.run_id]
            self._warm.cool_down(actor.run_id)
            self._links.forget(actor.run_id)
        actor.hold(None)
        actor.close()

    def _know_links(self, session: Session) -> None:
        waits = {} if session.state is None else session.state.waits
        for wait_id, wait in waits.items():
            for digest in wait.links:
                self.know_link(digest, session.run_id, wait_id)

    # --- its life ---

    async def start(self) -> None:
        """Begin to claim, to renew and to listen."""
        await self._agenda.start()

    async def stop(self) -> None:
        """Stop claiming, give running calls a few seconds, release what is held. Once is enough."""
        if self._draining:
            return
        self._draining = True
        await self._agenda.stop()
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
