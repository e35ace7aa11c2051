"""What goes wrong between a history and its program, in words: stored failures, and divergences."""

from collections.abc import Callable

from pydantic_core import from_json

from abeyance.engine.awaitables import Gate
from abeyance.errors import CallFailedError, DivergenceError
from abeyance.journal import events as e

_MAX_TEXT = 200


class StoredCallFailedError(CallFailedError):
    """A failure that the history holds. Its detail is read when it is asked for."""

    def __init__(
        self, code: str, *, tool: str, operation: str, gate: Gate, load: Callable[[], bytes] | None
    ) -> None:
        self._gate = gate
        self._load = load
        super().__init__(code, tool=tool, operation=operation)

    @property
    def detail(self) -> object:
        """The stored message, or `None`."""
        if self._load is None:
            return None
        try:
            return from_json(self._load())
        except Exception as error:
            # That the content is gone is no failure of the program, so the driver raises it.
            self._gate.fault = error
            raise

    @detail.setter
    def detail(self, value: object) -> None:
        """Nothing: the history has it."""


def divergence(op: str, recorded: str, requested: str, line: str) -> DivergenceError:
    """The error that names both sides: what history holds at `op`, and what the code asks for."""
    # Stored in `code-mismatch`, which takes texts of 200 characters.
    return DivergenceError(
        operation=op[:_MAX_TEXT], recorded=recorded[:_MAX_TEXT], requested=requested[:_MAX_TEXT], line=line
    )


def describe(event: e.Event) -> str:
    """What an event records, as the titles of operations say it."""
    match event:
        case e.CallStarted():
            return f"call {event.tool.id}@{event.tool.version}"
        case e.StepCompleted() | e.StepFailed():
            return f"step {event.name}"
        case e.ValueRecorded():
            return event.kind
        case e.TimerSet():
            return "sleep"
        case e.RaceDecided():
            return f"an end by branch {event.winner}"
        case _:
            return event.topic
