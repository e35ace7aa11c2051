"""What a wait asks for, as whoever has its link may know it: its name, the shape of an answer, until when.

Nothing of the run is in it: no input, no output, no id, no definition, no tool.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from abeyance.engine.answers import AnswerChecks
from abeyance.errors import HistoryDamagedError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import CallPaused, CallStarted
from abeyance.journal.run import CLOSED_WAIT, ENDED
from abeyance.journal.store import StoredWait
from abeyance.world import from_micros, to_micros

if TYPE_CHECKING:
    from abeyance.engine.executor import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One wait's question.

    `name` is there once the run has reached the wait, if its author gave one. `schema` is the JSON Schema of
    an answer, its properties in the order of the model where the tool is loaded. `state` is `open` while an
    answer can be taken, else as `WaitTokenClosedError` has it. `times_out_at` is there while it is reached
    and open.
    """

    name: str | None
    schema: Mapping[str, Any]
    state: str
    times_out_at: datetime | None = None


async def question_of(executor: "Executor", checks: AnswerChecks, stored: StoredWait) -> Question:
    """The question of a stored wait. Raises `HistoryDamagedError` if its events aren't what its row says."""
    codec, wait = executor.desk.codec, stored.wait
    tool = opening_call(codec, stored).tool
    name = None
    if wait.paused is not None:
        rows, _ = await executor.store.read_events(
            wait.run_id, after=wait.paused - 1, limit=1, contents=False
        )
        event = codec.open(rows[0]).event if rows else None
        if not isinstance(event, CallPaused):
            raise HistoryDamagedError("a wait was reached by another event", where=str(wait.run_id))
        name = event.name
    state = _state_of(stored, to_micros(executor.desk.world.now()))
    until = from_micros(wait.due) if state == "open" and wait.due is not None else None
    return Question(name=name, schema=await checks.schema_of(tool), state=state, times_out_at=until)


def opening_call(codec: EventCodec, stored: StoredWait) -> CallStarted:
    """The event that opened a wait token. Raises `HistoryDamagedError` if it is another one."""
    opening = codec.open(stored.opening).event
    if not isinstance(opening, CallStarted):
        raise HistoryDamagedError("a wait token was opened by another event", where=str(stored.wait.run_id))
    return opening


def _state_of(stored: StoredWait, now: int) -> str:
    wait = stored.wait
    if wait.state in CLOSED_WAIT or wait.state == "answered":
        return wait.state
    if wait.state == "waiting" and wait.due is not None and now >= wait.due:
        return "timed-out"
    return "cancelled" if stored.control.status in ENDED else "open"
