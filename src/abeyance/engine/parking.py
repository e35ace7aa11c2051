"""Parking: a run that can't be gone on with here, and why.

Code that asks for another operation than the journal holds parks the run with `code-mismatch`; the event is
appended once a pair of (recorded, requested), and fitting code lets the run go on by itself. A history that
is damaged is never written to: the run is left as it is, with an alarm in the log.
"""

import logging
from typing import Protocol

from abeyance.crypto.sealing import RunKey
from abeyance.engine.definitions import Definitions
from abeyance.engine.keyring import KeyRing
from abeyance.errors import AbeyanceError, DivergenceError, HistoryDamagedError
from abeyance.journal.batch import Batch, Desk
from abeyance.journal.events import CodeMismatch
from abeyance.journal.run import RunState, replay
from abeyance.journal.store import Control, JournalStore, StoredRun
from abeyance.world import to_micros

_log = logging.getLogger("abeyance.parking")
LOOK_AGAIN_MICROS = 60_000_000
LOOK_AGAIN_DAMAGED_MICROS = 3_600_000_000
_LONGEST_TEXT = 200


class Parker(Protocol):
    """What parking needs of the process."""

    desk: Desk
    store: JournalStore
    keys: KeyRing
    definitions: Definitions


async def park_mismatch(parker: Parker, stored: StoredRun, error: DivergenceError) -> None:
    """Record what the code asked for and the journal holds, and let the run be looked at again later."""
    state = replay(parker.desk.codec.open(row) for row in stored.events)
    mismatch = _mismatch(parker, state, error)
    if state.status == "suspended" and state.mismatch == mismatch:
        await put_back(parker, stored, LOOK_AGAIN_MICROS)
        return
    _log.warning("run %s is parked: %s", state.run_id, error)
    key: RunKey = await parker.keys.get(stored.control.key_id)
    batch = Batch(parker.desk, key, state.run_id, state)
    batch.add(mismatch)
    later = to_micros(batch.now) + LOOK_AGAIN_MICROS
    await parker.store.append(
        [
            batch.append(
                seen=stored.control, lease=None, definition=stored.control.definition, look_again=later
            )
        ]
    )


async def park_damaged(parker: Parker, stored: StoredRun, error: AbeyanceError) -> None:
    """Leave a run alone whose history or keys don't hold, and raise the alarm."""
    _log.error("ALARM: run %s can't be gone on with: %s", stored.control.run_id, error)
    await put_back(parker, stored, LOOK_AGAIN_DAMAGED_MICROS)


def check_history(desk: Desk, stored: StoredRun) -> None:
    """Hold a history to its chain, its newest signature and its control row. Raises `HistoryDamagedError`."""
    state = replay(desk.codec.open(row) for row in stored.events)
    desk.codec.verify(stored.events[-1], desk.public_keys)
    if (state.version, state.head) != (stored.control.version, stored.control.head):
        raise HistoryDamagedError("the control row and the newest event differ", where=str(state.run_id))


def left_alone(control: Control, deadline: int, now: int) -> bool:
    """Whether a process has looked at this run and put it back for later than it would be due."""
    if control.lease_id is not None or control.due is None or control.due <= now:
        return False
    return control.status in ("pending", "running") or control.due > deadline


def _mismatch(parker: Parker, state: RunState, error: DivergenceError) -> CodeMismatch:
    ref = state.started.definition
    definition = parker.definitions.find(ref.kind, ref.id, ref.version)
    return CodeMismatch(
        code=ref.digest if definition is None else definition.digest,
        line=error.line[:_LONGEST_TEXT] or None,
        op=error.operation[:_LONGEST_TEXT],
        recorded=error.recorded[:_LONGEST_TEXT],
        requested=error.requested[:_LONGEST_TEXT],
    )


async def put_back(parker: Parker, stored: StoredRun, micros: int) -> None:
    """Give a claimed run back, to be looked at again after `micros`; sooner if something happens to it."""
    control = stored.control
    if control.lease_id is not None:
        later = to_micros(parker.desk.world.now()) + micros
        await parker.store.release(control.run_id, control.lease_id, seen_version=control.version, due=later)
