"""One run in this process: commands come in, turns go out, one at a time.

An actor has no task of its own while its run waits: a command starts one, which ends when nothing is left
to do. All commands that have come in by then are decided in one turn and written by one append, so that
appends to one run are chained and don't race each other. A turn whose append loses is dropped whole, the
run is read again and every command is decided again on what is then true; commands are forgotten only once
their turn is on disk.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from abeyance.engine import decisions
from abeyance.engine.effects import Workshop, context_of, perform
from abeyance.engine.tool_context import ToolContext
from abeyance.engine.turn import Effect, Session, Turn, digest16
from abeyance.errors import ConflictError, RefusedError, StoreUnavailableError
from abeyance.journal.batch import Lease
from abeyance.journal.store import Append

Decide = Callable[[Turn], None]
Barrier = Callable[[str, UUID], Awaitable[None]]
"""Called at named places where a test may stop this process: `append:<topics>` before a batch is written,
`stored:<topics>` after it, `call-recorded` before a handler runs, `effect-done` after it.
"""

_log = logging.getLogger("abeyance.runs")
_LONGEST_TIMER_S = 3600.0
_RETRY_STORE_S = 0.5


@dataclass(frozen=True, slots=True)
class Command:
    """Something that happened, to be decided on. `reply` is resolved once it is on disk, or was refused."""

    decide: Decide
    reply: "asyncio.Future[None] | None" = None


class Host(Protocol):
    """What an actor needs of its process."""

    workshop: Workshop
    testing_only_barrier: Barrier | None

    async def append(self, append: Append) -> bool:
        """Write; whether it won."""

    async def load(self, run_id: UUID) -> Session | None:
        """Read the run again; `None` if it has ended, can't be gone on with here, or isn't there."""

    def new_lease(self) -> Lease:
        """A lease for this process, from now."""

    def rested(self, actor: "Actor") -> None:
        """The run waits, has ended or was lost: nothing is under way here."""

    def holds(self, actor: "Actor", before: Lease | None, now: Lease | None) -> None:
        """The lease that the run is held under here is another one, or none."""

    def know_link(self, digest: bytes, run_id: UUID, wait_id: str) -> None:
        """Remember which wait a new link answers."""

    async def let_go(self, actor: "Actor") -> None:
        """Give the lease back without an event."""


class Actor:
    """The run `run_id` in this process."""

    def __init__(self, host: Host, run_id: UUID, session: Session | None = None) -> None:
        self.run_id = run_id
        self.session = session
        self.lost = False
        self._host = host
        self._inbox: deque[Command] = deque()
        self._running: dict[str, ToolContext | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.lease: Lease | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is under way: a turn, a handler, a command that waits."""
        return bool(self._inbox or self._running or (self._pump is not None and not self._pump.done()))

    @property
    def settled(self) -> bool:
        """Whether the run waits or has ended, as far as this process knows, with nothing under way."""
        session = self.session
        state = None if session is None else session.state
        deciding = self._inbox or (self._pump is not None and not self._pump.done())
        return not deciding and state is not None and (state.ended or state.status == "suspended")

    def post(self, decide: Decide) -> None:
        """Let something be decided soon."""
        self._enqueue(Command(decide))

    async def submit(self, decide: Decide) -> None:
        """Decide something and return once it is on disk. Raises the refusal, `ConflictError` if the run is
        not this process's to write now, `StoreUnavailableError`.
        """
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enqueue(Command(decide, reply))
        await reply

    async def wait_settled(self, timeout_s: float) -> None:
        """Return when the run waits or has ended, or after `timeout_s` seconds."""
        if self.settled or self.lost or timeout_s <= 0:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=timeout_s)

    def claimed(self, lease: Lease) -> None:
        """The agenda gave the run to this process, under `lease`."""
        self.hold(lease)
        session = self.session
        if session is not None and session.seen is not None:
            session.seen = session.seen._replace(lease_id=lease.id)

    def hold(self, lease: Lease | None) -> None:
        """The run is held under `lease` from now on, or by nobody here."""
        before, self.lease = self.lease, lease
        if before is not lease:
            self._host.holds(self, before, lease)

    def give_up(self) -> None:
        """The lease is lost: stop handlers' wish to go on, take nothing more."""
        self._abort(ConflictError("the run is held by another process"))

    async def drain(self, seconds: float) -> None:
        """Let running calls end within `seconds`, then give those back that haven't."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        unfinished = [op for op, context in self._running.items() if context is not None]
        for context in self._running.values():
            if context is not None:
                context.cancel()
        if unfinished and self.session is not None:
            try:
                await self.submit(lambda turn: decisions.give_back(turn, unfinished))
            except (ConflictError, StoreUnavailableError, RefusedError):
                _log.warning("run %s: the drain of a call couldn't be recorded", self.run_id)
        if self.lease is not None:
            await self._host.let_go(self)

    def close(self) -> None:
        """Forget the run in this process."""
        if self._timer is not None:
            self._timer.cancel()
        if self.session is not None:
            self.session.close()
        self._wake_waiters()

    def _enqueue(self, command: Command) -> None:
        if self.lost:
            if command.reply is not None:
                command.reply.set_exception(ConflictError("the run is held by another process"))
            return
        self._inbox.append(command)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._inbox and not self.lost:
                await self._turn()
        except StoreUnavailableError as error:
            self._store_gone(error)
        except Exception as error:
            _log.exception("run %s: a turn failed", self.run_id)
            self._abort(error)
        finally:
            self._pump = None
            self._rest()

    def _store_gone(self, error: StoreUnavailableError) -> None:
        """Refuse who waits for a reply; keep what handlers did, and read the run again before going on."""
        self._refuse(error)
        self._forget_session()
        if self._inbox:
            asyncio.get_running_loop().call_later(_RETRY_STORE_S, self._resume)

    def _resume(self) -> None:
        if self._inbox and not self.lost and (self._pump is None or self._pump.done()):
            self._pump = asyncio.get_running_loop().create_task(self._work())

    async def _turn(self) -> None:
        session = self.session
        if session is None:
            session = await self._reload()
            if session is None or self.lost:
                return
        session.running = self._running
        commands = list(self._inbox)
        turn = Turn(session)
        refused = self._decide(turn, commands)
        if not turn.batch.empty:
            lease = self._lease_after(turn)
            append = turn.batch.append(
                seen=session.seen, lease=lease, definition=digest16(session.definition)
            )
            won = await self._append(append)
            if self.lost:
                return
            if not won:
                self._forget_session()
                return
            session.seen = append.control
            self.hold(lease)
        for _ in commands:
            self._inbox.popleft()
        for command in commands:
            if command.reply is not None and not command.reply.done():
                error = refused.get(id(command))
                command.reply.set_exception(error) if error else command.reply.set_result(None)
        await self._after(turn)

    async def _append(self, append: Append) -> bool:
        topics = ",".join(row.topic for row in append.events)
        await self._pass(f"append:{topics}")
        won = await self._host.append(append)
        await self._pass(f"stored:{topics}")
        return won

    async def _pass(self, place: str) -> None:
        if self._host.testing_only_barrier is not None:
            await self._host.testing_only_barrier(place, self.run_id)

    def _decide(self, turn: Turn, commands: list[Command]) -> dict[int, RefusedError]:
        refused: dict[int, RefusedError] = {}
        for command in commands:
            try:
                command.decide(turn)
            except RefusedError as error:
                if command.reply is None:
                    raise
                refused[id(command)] = error
        decisions.settle(turn)
        return refused

    def _lease_after(self, turn: Turn) -> Lease | None:
        if turn.state.ended or (turn.state.status == "suspended" and not turn.effects):
            return None
        return self.lease or self._host.new_lease()

    async def _after(self, turn: Turn) -> None:
        for effect in turn.effects:
            if effect.link is not None and effect.wait is not None:
                self._host.know_link(effect.link.digest, self.run_id, effect.wait)
            self._start(effect)
        for op, context in self._running.items():
            if context is not None and turn.session.driver.is_abandoned(op):
                context.cancel()
        self._set_timer(turn)
        if turn.state.ended:
            for context in self._running.values():
                if context is not None:
                    context.cancel()
        if turn.batch.empty and not turn.effects and self.lease is not None and not self._running:
            await self._host.let_go(self)

    def _start(self, effect: Effect) -> None:
        context = context_of(effect, self.run_id, self._host.workshop.public_url())
        self._running[effect.op] = context
        task = asyncio.get_running_loop().create_task(self._perform(effect, context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, effect: Effect, context: ToolContext) -> None:
        try:
            await self._pass("call-recorded")
            decide = await perform(effect, context, self._host.workshop)
            await self._pass("effect-done")
        except asyncio.CancelledError:
            self._running.pop(effect.op, None)
            raise
        if self._running.get(effect.op) is context:
            self._running.pop(effect.op)
        if not self.lost:
            self.post(decide)

    def _set_timer(self, turn: Turn) -> None:
        """Fire the run's own nearest deadline here; the agenda finds it anyway."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if turn.state.ended:
            return
        delay = max(0.0, (turn.state.next_deadline() - turn.now) / 1e6)
        if delay < _LONGEST_TIMER_S:
            self._timer = asyncio.get_running_loop().call_later(delay, self.post, decisions.fire_deadlines)

    async def _reload(self) -> Session | None:
        session = await self._host.load(self.run_id)
        seen = None if session is None else session.seen
        if session is None or seen is None:
            self._abort(ConflictError("the run can't be gone on with here"))
            return None
        mine = None if self.lease is None else self.lease.id
        if seen.lease_id != mine:
            session.close()
            self._abort(ConflictError("the run is held by another process"))
            return None
        self.session = session
        return session

    def _forget_session(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def _refuse(self, error: Exception) -> None:
        waiting = [command for command in self._inbox if command.reply is not None]
        self._inbox = deque(command for command in self._inbox if command.reply is None)
        for command in waiting:
            if command.reply is not None and not command.reply.done():
                command.reply.set_exception(error)

    def _abort(self, error: Exception) -> None:
        self.lost = True
        self._refuse(error)
        self._inbox.clear()
        for context in self._running.values():
            if context is not None:
                context.cancel()
        self._running.clear()
        self._forget_session()

    def _rest(self) -> None:
        if self.settled or self.lost:
            self._wake_waiters()
        if not self.busy:
            self._host.rested(self)

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
