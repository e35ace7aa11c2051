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
from uuid import UUID

from abeyance.engine import decisions, recovery
from abeyance.engine.host import Command, Decide, Host
from abeyance.engine.running import RunningCalls
from abeyance.engine.turn import Session, Turn, digest16
from abeyance.errors import ConflictError, HistoryDamagedError, RefusedError, StoreUnavailableError
from abeyance.journal.batch import Lease
from abeyance.journal.store import Append

_log = logging.getLogger("abeyance.runs")
_LONGEST_TIMER_S = 60.0
_FIRST_RETRY_S = 0.25
_LONGEST_RETRY_S = 5.0
_MOST_LOSSES = 20


class Actor:
    """The run `run_id` in this process."""

    def __init__(self, host: Host, run_id: UUID, session: Session | None = None) -> None:
        self.run_id = run_id
        self.session = session
        self.lost = False
        self._host = host
        self._inbox: deque[Command] = deque()
        self._calls = RunningCalls(host, run_id, self._call_ended, self._call_broke)
        self._pump: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[Session | None]] = []
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = _FIRST_RETRY_S
        self._losses: list[int] = []
        self._old = False
        self._perhaps: Lease | None = None
        self.lease: Lease | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is under way: a turn, a handler, a command that waits, another try."""
        return bool(self._inbox or self._calls.contexts or self._retry is not None or self._deciding)

    @property
    def waits_beside_work(self) -> bool:
        """Whether another process may take an answer that this one, busy with a handler, would miss."""
        state = None if self.session is None else self.session.state
        if state is None or not self._calls.contexts:
            return False
        return any(wait.row.call_key and wait.row.state == "waiting" for wait in state.waits.values())

    @property
    def workspace(self) -> str | None:
        """Whose run it is, if it has been read."""
        state = None if self.session is None else self.session.state
        return None if state is None else state.started.workspace

    @property
    def _deciding(self) -> bool:
        return self._pump is not None and not self._pump.done()

    @property
    def settled(self) -> bool:
        """Whether the run waits or has ended, as far as this process knows, with nothing under way."""
        session = self.session
        state = None if session is None else session.state
        deciding = self._inbox or self._deciding
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

    async def wait_settled(self, timeout_s: float) -> Session | None:
        """Return when the run waits or has ended, or after `timeout_s` seconds.

        What is returned is the run as this process has just written it; `None` if nothing was under way (then
        another process may have moved it since), or if it isn't settled yet.
        """
        if self.settled or self.lost or timeout_s <= 0:
            return None
        waiter: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=timeout_s)
        return waiter.result() if waiter.done() else None

    def claimed(self, lease: Lease) -> None:
        """The agenda gave the run to this process, under `lease`."""
        self.hold(lease)
        self._old = True  # whoever made the run due may have written to it: read it again

    def look_again(self) -> None:
        """Somebody else wrote to the run: read it again and go on with what is true now."""
        self._old = True
        self.post(_as_it_is)

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
        self._stop_timer()
        unfinished = await self._calls.drain(seconds)
        if unfinished or self.busy:
            try:
                await self.submit(lambda turn: recovery.give_back(turn, unfinished))
            except (ConflictError, StoreUnavailableError, RefusedError):
                _log.warning("run %s: the drain of a call couldn't be recorded", self.run_id)
        if self.lease is not None:
            await self._host.let_go(self)

    def close(self) -> None:
        """Forget the run in this process."""
        self._stop_timer()
        self._stop_retry()
        self.forget_session()
        self._wake_waiters(None)

    def _enqueue(self, command: Command) -> None:
        if self.lost:
            if command.reply is not None:
                command.reply.set_exception(ConflictError("the run is held by another process"))
            return
        self._inbox.append(command)
        self._go()

    def _go(self) -> None:
        if not self._deciding:
            self._stop_retry()
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
        """Refuse who waits for a reply; keep what handlers did, and read the run again before going on.

        What was sent may be stored, with the lease in it: whoever may hold the run looks.
        """
        self._refuse(error)
        self.forget_session()
        if self.lost or not (self._inbox or self.lease or self._perhaps):
            return
        if not self._inbox:
            self._inbox.append(Command(_as_it_is))
        self._retry = asyncio.get_running_loop().call_later(self._retry_s, self._go_again)
        self._retry_s = min(self._retry_s * 2, _LONGEST_RETRY_S)

    def _go_again(self) -> None:
        self._retry = None
        if self._inbox and not self.lost:
            self._go()

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def _turn(self) -> None:
        if self._old:
            self.forget_session()
            self._old = False
        session = self.session
        if session is None:
            session = await self._reload()
            if session is None or self.lost:
                return
        session.running = self._calls.contexts
        commands = list(self._inbox)
        turn = Turn(session)
        refused = self._decide(turn, commands)
        if not turn.batch.empty and not await self._write(session, turn):
            return
        for _ in commands:
            self._inbox.popleft()
        for command in commands:
            if command.reply is not None and not command.reply.done():
                error = refused.get(id(command))
                command.reply.set_exception(error) if error else command.reply.set_result(None)
        await self._after(turn)

    async def _write(self, session: Session, turn: Turn) -> bool:
        """Store the turn; whether it won and the run is still this process's."""
        lease, before = self._lease_after(turn), self.lease
        append = turn.batch.append(seen=session.seen, lease=lease, definition=digest16(session.definition))
        self._perhaps = lease
        won = await self._append(append)
        self._perhaps = None
        if self.lost:
            return False
        if not won:
            self._lose(append.expected_version)
            return False
        self._losses, self._retry_s = [], _FIRST_RETRY_S
        session.seen = append.control
        if self.lease is before:  # else the agenda gave the run back to this process after the append
            self.hold(lease)
        return True

    def _lose(self, version: int) -> None:
        """Something else came first: read and decide again. If no event did, 20 times, the rows are wrong."""
        self.forget_session()
        self._losses = [version, *(each for each in self._losses if each == version)]
        if len(self._losses) >= _MOST_LOSSES:
            raise HistoryDamagedError("every append loses: its rows and its events differ", str(self.run_id))

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
        if not self._host.draining:  # else what follows begins elsewhere
            recovery.recover(turn)
            decisions.settle(turn)
        return refused

    def _lease_after(self, turn: Turn) -> Lease | None:
        if turn.state.ended or (turn.state.status == "suspended" and not turn.effects):
            return None
        if self.lease is None and self._host.draining:
            return None
        return self.lease or self._host.new_lease()

    async def _after(self, turn: Turn) -> None:
        for effect in turn.effects:
            if effect.link is not None and effect.wait is not None:
                self._host.know_link(effect.link.digest, self.run_id, effect.wait)
            self._calls.start(effect)
        for op in self._calls.contexts:
            if turn.state.ended or turn.session.driver.is_abandoned(op):
                self._calls.cancel(op)
        self._set_timer(turn)
        if turn.batch.empty and not turn.effects and self.lease is not None and not self._calls.contexts:
            await self._host.let_go(self)

    def _call_ended(self, decide: Decide) -> None:
        if not self.lost:
            self.post(decide)

    def _call_broke(self, error: Exception) -> None:
        _log.error("run %s: a call broke outside its handler", self.run_id, exc_info=error)
        self._abort(error)
        self._rest()

    def _set_timer(self, turn: Turn) -> None:
        """Fire the run's own nearest deadline here: while this process holds the run, nobody else can.

        A far one is looked at again and again, since the clock that it is judged by may be set.
        """
        self._stop_timer()
        if turn.state.ended or self._host.draining:
            return
        delay = max(0.0, (turn.state.next_deadline() - turn.now) / 1e6)
        timer = asyncio.get_running_loop().call_later
        self._timer = timer(min(delay, _LONGEST_TIMER_S), self.post, decisions.fire_deadlines)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _reload(self) -> Session | None:
        session = await self._host.load(self.run_id)
        if self._old:  # claimed, or written to, since it was read
            if session is not None:
                session.close()
            return None
        seen = None if session is None else session.seen
        if session is None or seen is None:
            self._abort(ConflictError("the run can't be gone on with here"))
            return None
        perhaps, self._perhaps = self._perhaps, None
        if perhaps is not None and seen.lease_id == perhaps.id:
            self.hold(perhaps)  # the append landed whose reply was lost
        mine = None if self.lease is None else self.lease.id
        if seen.lease_id != mine:
            session.close()
            self._abort(ConflictError("the run is held by another process"))
            return None
        self.session = session
        return session

    def forget_session(self) -> None:
        """Drop what is known of the run: the next command reads it again."""
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
        self._stop_retry()
        self._calls.abandon()
        self.forget_session()

    def _rest(self) -> None:
        if self.settled or self.lost:
            self._wake_waiters(self.session)
        if not self.busy:
            self._host.rested(self)

    def _wake_waiters(self, session: Session | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(session)


def _as_it_is(turn: Turn) -> None:
    """Nothing happened; go on with what is stored."""
