"""What tests of changes of waits share: a run that waits, and one of the changes."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

from abeyance.engine.definitions import Flow
from abeyance.journal.events import CallPaused, CallStarted
from abeyance.projections.views import RunView, TokenView
from tests.support.engine import EngineProcess

HOUR = timedelta(hours=1)
CHANGES = ["extend", "rotate", "revoke"]


def token_of(view: RunView) -> TokenView:
    """The one wait token that a run waits for."""
    assert view.waiting_for is not None
    (token,) = view.waiting_for.tokens
    return token


async def called(process: EngineProcess, run_id: UUID) -> str:
    """The wait of a run's first call, reached or not."""
    call = (await process.history(run_id))[1].event
    assert isinstance(call, CallStarted)
    assert call.wait is not None
    return call.wait


async def waiting(process: EngineProcess, ship: Flow) -> tuple[UUID, str]:
    """A run that waits, and the id of its wait."""
    view = await process.start(ship)
    return view.id, token_of(view).token_id


async def paused(process: EngineProcess, run_id: UUID) -> str:
    """The wait that the run has paused on, once it has."""
    while True:
        for recorded in await process.history(run_id):
            if isinstance(recorded.event, CallPaused):
                return recorded.event.wait
        await asyncio.sleep(0.005)


async def change(process: EngineProcess, what: str, run_id: UUID, wait: str, until: datetime) -> None:
    """Extend, rotate or revoke."""
    if what == "extend":
        await process.waits.extend(run_id, wait, until)
    else:
        await getattr(process.waits, what)(run_id, wait)
