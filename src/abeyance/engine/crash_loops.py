"""Runs whose code kills its process: they are parked, so that they don't take one worker after the other.

A call is recorded before its handler runs, so its runs are counted in the journal. Read-only calls, steps
and the replay itself aren't: there the store counts how many workers were lost while the run stayed as it
was. After five the run is parked with `crash-loop`. None of its code runs then, whatever happens to it:
answers are taken, a cancel and its time to live end it. `retry` lets it go on.
"""

import logging
from typing import Protocol
from uuid import UUID

from abeyance.engine.decisions import suspended
from abeyance.engine.endings import EXPIRED, EXPIRED_TEXT, fail_run
from abeyance.engine.parking import Parker, check_history, left_alone, park_damaged
from abeyance.errors import (
    ConflictError,
    HistoryDamagedError,
    RunAlreadyTerminalError,
    RunNotFoundError,
    RunNotParkedError,
    UnknownEventError,
)
from abeyance.journal import events as e
from abeyance.journal.batch import Batch
from abeyance.journal.run import RunState, replay
from abeyance.journal.store import Claim, ReplyRow, StoredRun
from abeyance.world import to_micros

_log = logging.getLogger("abeyance.parking")
MOST_LOST = 5


def is_parked(parker: Parker, stored: StoredRun) -> RunState | None:
    """The run's state if it is parked as a crash loop, else `None`."""
    if all(row.topic != e.CrashLoop.topic for row in stored.events):
        return None
    state = replay(parker.desk.codec.open(row) for row in stored.events)
    return state if state.crash_looping else None


async def park_crash_loop(parker: Parker, claim: Claim) -> None:
    """Park a claimed run that workers died of, without loading its code."""
    stored = await parker.store.read_run(claim.run_id)
    if stored is None:
        return
    try:
        state = replay(parker.desk.codec.open(row) for row in stored.events)
    except (HistoryDamagedError, UnknownEventError) as error:
        await park_damaged(parker, stored, error)
        return
    if state.crash_looping or state.ended:
        await keep_parked(parker, stored, state)
        return
    _log.error("ALARM: run %s is parked: %d workers died with nothing appended", claim.run_id, claim.lost)
    batch = await _batch(parker, stored, state)
    batch.add(e.CrashLoop(code=state.started.definition.digest, lost=claim.lost))
    await _append(parker, stored, batch)


async def keep_parked(parker: Parker, stored: StoredRun, state: RunState) -> None:
    """A parked run was claimed: its time is over, or something was taken for it. Its code isn't loaded."""
    batch = await _batch(parker, stored, state)
    if not state.ended and to_micros(batch.now) >= to_micros(state.started.expires_at):
        fail_run(batch, EXPIRED, EXPIRED_TEXT)
    elif not state.ended and state.status != "suspended":
        batch.add(suspended(state))
    if not batch.empty:
        await _append(parker, stored, batch)
        return
    control = stored.control
    if control.lease_id is not None:
        due = state.next_deadline()
        await parker.store.release(control.run_id, control.lease_id, seen_version=control.version, due=due)


class Retrier(Parker, Protocol):
    """What a retry needs of the process."""

    def long_due(self) -> int:
        """A moment (microseconds) so long ago that any process may take a run that is due since then."""


async def retry(retrier: Retrier, run_id: UUID, actor: str | None, reply: ReplyRow | None = None) -> None:
    """Let a parked run be gone on with: at once, and by whoever has its code. `reply` is the idempotency key
    of the request; what appends no event may be done again.

    Raises `RunNotFoundError`, `RunAlreadyTerminalError`, `RunNotParkedError`; `ConflictError` if something
    else came first.
    """
    stored = await retrier.store.read_run(run_id)
    if stored is None:
        raise RunNotFoundError
    try:
        state = replay(retrier.desk.codec.open(row) for row in stored.events)
        check_history(retrier.desk, stored)
    except HistoryDamagedError:
        await retrier.store.offer(retrier.long_due(), [run_id])
        return
    if state.ended:
        raise RunAlreadyTerminalError(state.status)
    if state.crash_looping:
        batch = await _batch(retrier, stored, state)
        batch.add(e.CrashLoopRetried(actor=actor))
        batch.reply = reply
        if not await _append(retrier, stored, batch):
            raise ConflictError("the run was written to")
    elif state.mismatch is not None or left_alone(
        stored.control, state.next_deadline(), to_micros(retrier.desk.world.now())
    ):
        await retrier.store.offer(retrier.long_due(), [run_id])
    else:
        raise RunNotParkedError


async def _batch(parker: Parker, stored: StoredRun, state: RunState) -> Batch:
    key = await parker.keys.get(stored.control.key_id)
    return Batch(parker.desk, key, state.run_id, state)


async def _append(parker: Parker, stored: StoredRun, batch: Batch) -> bool:
    append = batch.append(seen=stored.control, lease=None, definition=stored.control.definition)
    return (await parker.store.append([append]))[0]
