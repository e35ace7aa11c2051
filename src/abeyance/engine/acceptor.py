"""Taking an answer: at a link, or with the app's key.

If the run is at hand in this process its actor decides, in the same turn as what follows. Else the acceptor
works from indexed rows (link → wait → control row) and the run's newest event: it takes `prev` from that
event's bytes, refuses loudly if event and control row disagree, and appends one event. Its cost doesn't
grow with the history. Answer and deadline race for one slot, which one conditional append decides; a loser
reads again and decides again.
"""

import logging
from dataclasses import dataclass, replace
from uuid import UUID

from abeyance.engine import decisions
from abeyance.engine.answer_append import append_of_answer
from abeyance.engine.answers import AnswerChecks
from abeyance.engine.executor import Executor
from abeyance.engine.links import link_digest
from abeyance.engine.questions import Question, opening_call, question_of
from abeyance.engine.replies import UsedKey
from abeyance.engine.run_turns import RunTurns
from abeyance.engine.tenants import refuse_inactive
from abeyance.engine.turn import Turn
from abeyance.errors import (
    AnswerInvalidError,
    ConflictError,
    HistoryDamagedError,
    IdempotencyKeyInFlightError,
    RefusedError,
    StoreUnavailableError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
)
from abeyance.journal.batch import Lease
from abeyance.journal.events import CallStarted, content_ref
from abeyance.journal.run import CLOSED_WAIT, ENDED, parse_token_id, token_id
from abeyance.journal.store import Append, StoredWait
from abeyance.world import to_micros

_TRIES = 50
_log = logging.getLogger("abeyance.acceptor")


class _ByRowsError(RefusedError):
    """The run at hand can't say what became of the wait: the rows do."""


@dataclass(slots=True)
class Answerable:
    """A wait that was found and may be answered: the `OpenLink` of the service's port.

    It was found by a link (`digest`) or by run and token id (`run_id`); `stored` is what was read, until it
    is known to be old. `key` is the idempotency key of the request that answers. `decided`: the run at hand
    has tried to take the answer.
    """

    acceptor: "Acceptor"
    digest: bytes | None
    run_id: UUID
    wait_id: str
    stored: StoredWait | None
    by: str
    key: UsedKey | None = None
    decided: bool = False

    async def answer(self, value: bytes) -> None:
        """See `OpenLink.answer`."""
        await self.acceptor.accept(self, value)

    async def confirm(self) -> None:
        """See `OpenLink.confirm`."""
        if self.stored is None:
            self.stored = await self.acceptor.read(self)
        refuse_inactive(self.stored.tenant)

    async def check(self, value: bytes) -> None:
        """See `OpenLink.check`."""
        await self.acceptor.check(self, value)

    async def ask(self) -> Question:
        """See `OpenLink.ask`."""
        return await self.acceptor.ask(self)


class Acceptor:
    """Takes answers for runs of one store."""

    def __init__(self, executor: Executor, checks: AnswerChecks) -> None:
        self._executor = executor
        self._checks = checks
        self._turns = RunTurns()

    async def open_link(self, token: str) -> Answerable:
        """The wait that a link answers. Raises `WaitTokenNotFoundError`."""
        digest = link_digest(token)
        at_hand = self._executor.link(digest)
        if at_hand is not None:
            return Answerable(self, digest, at_hand.run_id, at_hand.wait_id, None, by="link")
        stored = await self._executor.store.find_link(digest)
        if stored is None:
            raise WaitTokenNotFoundError
        return Answerable(self, digest, stored.wait.run_id, _wait_id(stored), stored, by="link")

    async def open_wait(
        self, run_id: UUID, wait_id: str, *, by: str, key: UsedKey | None = None
    ) -> Answerable:
        """The wait that a token id names in this run. Raises `WaitTokenNotFoundError`."""
        named = parse_token_id(wait_id)
        stored = None if named is None else await self._executor.store.find_wait(run_id, *named)
        if stored is None:
            raise WaitTokenNotFoundError
        return Answerable(self, None, run_id, wait_id, stored, by, key)

    async def accept(self, wait: Answerable, value: bytes) -> None:
        """Take `value`. See `OpenLink.answer` for what is raised. A key's row goes in with nothing but the
        answer, so the run at hand doesn't take it in a turn with other things.
        """
        by_rows = wait.key is not None
        for _ in range(_TRIES):
            actor = None if by_rows else self._executor.find(wait.run_id)
            try:
                if actor is not None:
                    await actor.submit(lambda turn: self._decide(turn, wait, value))
                    return
                turn = self._turns.of(wait.run_id)
                if turn.locked():
                    wait.stored = None  # who is before us writes: what was read is old then
                async with turn:
                    stored, wait.stored = wait.stored or await self.read(wait), None
                    if await self._take_by_rows(stored, wait, value):
                        return
            except _ByRowsError:
                by_rows, wait.stored = True, None
            except ConflictError:
                wait.stored = None
            except HistoryDamagedError as error:
                raise _cannot_be_signed(wait, error) from error
        raise StoreUnavailableError("the run is written to by many at once; send the answer again")

    async def check(self, wait: Answerable, value: bytes) -> None:
        """Refuse `value` as `accept` would now, and take nothing.

        The rows are read anew, whatever is at hand. The append is made, so that what stops its making is
        found here too, and left at that.
        """
        stored, wait.stored = wait.stored or await self.read(wait), None
        refuse_inactive(stored.tenant)
        try:
            if await self._is_taken(stored, value):
                return
            await self._make_append(stored, wait, value, lease=None)
        except HistoryDamagedError as error:
            raise _cannot_be_signed(wait, error) from error
        await self._executor.store.check_writable()

    async def ask(self, wait: Answerable) -> Question:
        """What the wait asks for, to be shown to whoever has its link."""
        stored = wait.stored or await self.read(wait)
        refuse_inactive(stored.tenant)
        try:
            return await question_of(self._executor, self._checks, stored)
        except HistoryDamagedError as error:
            raise _cannot_be_signed(wait, error) from error

    def _decide(self, turn: Turn, wait: Answerable, value: bytes) -> None:
        open_wait = turn.state.waits.get(wait.wait_id)
        opened = turn.session.opened.get(wait.wait_id)
        opening = opened[0].event if opened else None
        check = self._checks.at_hand(opening.tool) if isinstance(opening, CallStarted) else None
        if open_wait is None or check is None or wait.decided:
            raise _ByRowsError  # what lost may have lost because the tenant isn't active
        wait.decided = True
        if wait.digest is not None and wait.digest not in open_wait.links:
            raise _ByRowsError  # it was killed, or is newer than what is at hand
        # A refusal isn't put to the test by an append, and what is at hand may be old: the rows refuse.
        if open_wait.row.due is not None and turn.now >= open_wait.row.due:
            raise _ByRowsError
        if open_wait.held is not None and open_wait.row.answer is not None:
            raise _ByRowsError
        try:
            check.refuse_unfit(value)
        except AnswerInvalidError:
            raise _ByRowsError from None
        turn.batch.if_active = True
        decisions.take_answer(turn, wait.wait_id, value, by=wait.by)

    async def read(self, wait: Answerable) -> StoredWait:
        """The wait as its rows are now. Raises `WaitTokenNotFoundError`, also once its link was killed."""
        store, named = self._executor.store, parse_token_id(wait.wait_id)
        if wait.digest is not None:
            stored = await store.find_link(wait.digest)
        else:
            stored = None if named is None else await store.find_wait(wait.run_id, *named)
        if stored is None:
            raise WaitTokenNotFoundError
        return stored

    async def _take_by_rows(self, stored: StoredWait, wait: Answerable, value: bytes) -> bool:
        """Judge the wait by its rows, then append; `False` if the append lost."""
        executor, row = self._executor, stored.wait
        refuse_inactive(stored.tenant)
        if await self._is_taken(stored, value):
            return True
        mine = executor.has_room() and executor.has_code(stored.control.definition)
        lease = executor.new_lease() if mine else None
        append = await self._make_append(stored, wait, value, lease=lease)
        taken = lease is not None and append.control.lease_id == lease.id
        try:
            won = await self._append(append)
        except StoreUnavailableError:
            if lease is not None and taken:
                executor.perhaps_go_on(row.run_id, lease)
            raise
        if not won:
            if wait.key is not None and await wait.key.find() is not None:
                raise IdempotencyKeyInFlightError
            return False
        if lease is not None and taken:
            executor.go_on(row.run_id, lease)
        else:
            executor.hint(row.run_id)
            await executor.tell(row.run_id)
        return True

    async def _is_taken(self, stored: StoredWait, value: bytes) -> bool:
        """Whether the wait has taken, or holds, this very answer; `False` if it may be appended. Raises what
        it is refused with.
        """
        executor, row = self._executor, stored.wait
        _refuse_late(stored, to_micros(executor.desk.world.now()))
        if row.state in CLOSED_WAIT or row.state == "answered":
            await self._same_or_closed(stored, value)
            return True
        (await self._checks.of(opening_call(executor.desk.codec, stored).tool)).refuse_unfit(value)
        return False

    async def _make_append(
        self, stored: StoredWait, wait: Answerable, value: bytes, *, lease: Lease | None
    ) -> Append:
        executor = self._executor
        key = await executor.keys.get(stored.control.key_id)
        append = append_of_answer(
            executor.desk, stored, wait_id=wait.wait_id, answer=value, by=wait.by, key=key, lease=lease
        )
        return replace(append, reply=None if wait.key is None else wait.key.row, if_active=True)

    async def _append(self, append: Append) -> bool:
        barrier, topic = self._executor.testing_only_barrier, append.events[0].topic
        if barrier is not None:
            await barrier(f"append:{topic}", append.run_id)
        won = await self._executor.append(append)
        if barrier is not None:
            await barrier(f"stored:{topic}", append.run_id)
        return won

    async def _same_or_closed(self, stored: StoredWait, value: bytes) -> None:
        """Return if `value` is the answer that the wait took or holds; else say what became of the wait."""
        row, executor = stored.wait, self._executor
        if (
            row.state in ("completed", "answered")
            and stored.answer_blob is not None
            and row.answer is not None
        ):
            rows, _ = await executor.store.read_events(
                row.run_id, after=row.answer - 1, limit=1, contents=False
            )
            ref = content_ref(executor.desk.codec.open(rows[0]).event)
            key = await executor.keys.get(stored.control.key_id)
            if ref is not None:
                blob, vault = stored.answer_blob, executor.desk.vault
                known = vault.open(blob, ref, key, run_id=row.run_id, version=row.answer)
                if known.canonical == value:
                    return
        raise WaitTokenClosedError(row.state)


def _cannot_be_signed(wait: Answerable, error: HistoryDamagedError) -> StoreUnavailableError:
    _log.error("ALARM: no answer can be taken for run %s", wait.run_id, exc_info=error)
    return StoreUnavailableError(
        "the run's history doesn't hold: nothing was taken, an operator must look at it"
    )


def _wait_id(stored: StoredWait) -> str:
    wait = stored.wait
    if wait.call_key is None or wait.ordinal is None:
        raise HistoryDamagedError("a link leads to something that isn't a wait token", where=str(wait.run_id))
    return token_id(wait.call_key, wait.ordinal)


def _refuse_late(stored: StoredWait, now: int) -> None:
    wait = stored.wait
    if wait.state == "waiting" and wait.due is not None and now >= wait.due:
        raise WaitTokenClosedError("timed-out")
    if stored.control.status in ENDED and wait.state not in CLOSED_WAIT:
        raise WaitTokenClosedError("cancelled")
