"""Taking a stored run up: its history is checked, its code is found, its program is replayed.

A run that can't be taken up here is put back, parked or left alone, and the caller gets nothing.
"""

import asyncio

from abeyance.engine import decisions, recovery
from abeyance.engine.crash_loops import is_parked, keep_parked
from abeyance.engine.definitions import Definition
from abeyance.engine.parking import LOOK_AGAIN_MICROS, Parker, park_damaged, park_mismatch, put_back
from abeyance.engine.turn import Session, Turn
from abeyance.errors import ContentErasedError, DivergenceError, HistoryDamagedError, UnknownEventError
from abeyance.journal.events import CodeMatched, Started
from abeyance.journal.store import StoredRun


async def open_session(parker: Parker, stored: StoredRun) -> Session | None:
    """The run, replayed up to its newest event; `None` if it can't be gone on with here."""
    control = stored.control
    try:
        looping = is_parked(parker, stored)
        if looping is not None:
            await keep_parked(parker, stored, looping)
            return None
        definition = _definition(parker, stored)
        if definition is None:
            await put_back(parker, stored, LOOK_AGAIN_MICROS)
            return None
        key = await parker.keys.get(control.key_id)
        session = Session(parker.desk, key, control.run_id, definition)
        for _ in session.load(stored):
            await asyncio.sleep(0)
    except DivergenceError as error:
        await park_mismatch(parker, stored, error)
        return None
    except (HistoryDamagedError, UnknownEventError, ContentErasedError) as error:
        await park_damaged(parker, stored, error)
        return None
    return session


def _definition(parker: Parker, stored: StoredRun) -> Definition | None:
    started = parker.desk.codec.open(stored.events[0]).event
    if not isinstance(started, Started):
        raise HistoryDamagedError(
            "a run's stream begins with another event", where=str(stored.control.run_id)
        )
    ref = started.definition
    return parker.definitions.find(ref.kind, ref.id, ref.version)


def taken_up(turn: Turn) -> None:
    """What is decided first on a run that was taken up."""
    if turn.state.mismatch is not None:
        turn.add(CodeMatched(code=turn.session.definition.digest))
    recovery.recover(turn)
    decisions.fire_deadlines(turn)
