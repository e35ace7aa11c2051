"""What a script sees: its context. And the program that a script is, with its input and output checked."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import CoroutineType, FrameType
from typing import Any, NoReturn, cast
from uuid import UUID

from abeyance.engine.arguments import encode_arguments, merge_fields
from abeyance.engine.awaitables import (
    Branchable,
    Branches,
    Call,
    Gate,
    Operation,
    Place,
    Sleep,
    Step,
    Value,
    Winner,
)
from abeyance.engine.definitions import Script, Shape, Tool
from abeyance.engine.definitions import Step as FlowStep
from abeyance.engine.values import read, write
from abeyance.errors import InvalidOperationError, ToolError, ValueInvalidError
from abeyance.journal.canonical import canonicalise
from abeyance.journal.events import parse_moment

MAX_SLEEP = timedelta(days=36_500)


class ProgramFailed(Exception):
    """The program ended with a failure code of its own. `detail` may hold a user's words."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class ScriptContext:
    """What a script awaits. Each method makes an operation; the run goes on when its result is recorded."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def call(self, tool: Tool, /, input: object = None, **fields: object) -> Operation[Any]:  # noqa: A002
        """Call `tool` with one input, or with its fields by name, and get its output.

        Raises `CallFailedError` at the `await` once the call has failed for good.
        """
        if not isinstance(tool, Tool):
            raise InvalidOperationError(f"ctx.call takes a tool first, not {type(tool).__name__}")
        return Call(self._gate, _place_of(sys._getframe(1)), tool, merge_fields(tool, input, fields))

    def step(self, name: str, function: Callable[..., Any], /, *args: object) -> Operation[Any]:
        """Run `function(*args)` once, a plain or an `async` one, and get its recorded result as JSON gives it
        back.

        `name` is kept for ever, so it holds no personal data: 1 to 200 characters. `args` are part of the
        operation's identity. Raises `CallFailedError` at the `await` if the function raised.
        """
        if not isinstance(cast(object, name), str) or not 1 <= len(name) <= 200 or not name.isprintable():
            raise InvalidOperationError("ctx.step takes a name of 1 to 200 printable characters first")
        if not callable(function):
            raise InvalidOperationError(f"step {name} takes a function, not {type(function).__name__}")
        arguments = encode_arguments(args, f"step {name}")
        run = partial(function, *args)
        return Step(self._gate, _place_of(sys._getframe(1)), name, run, arguments)

    def sleep(self, duration: timedelta | float, /) -> Operation[None]:
        """Go on after `duration`, a timedelta or seconds, from 0 to 36,500 days."""
        return Sleep(self._gate, _place_of(sys._getframe(1)), _checked_duration(duration))

    def now(self) -> Operation[datetime]:
        """The time (aware, UTC) when this was first asked for."""
        return Value(self._gate, _place_of(sys._getframe(1)), "now", parse_moment)

    def uuid(self) -> Operation[UUID]:
        """A new UUID, the same in every replay."""
        return Value(self._gate, _place_of(sys._getframe(1)), "uuid", UUID)

    def random(self) -> Operation[float]:
        """A random number from 0 up to 1, the same in every replay. Not for secrets: it is in the journal."""
        return Value(self._gate, _place_of(sys._getframe(1)), "random", _unit_interval)

    def gather(self, *parts: Branchable, return_exceptions: bool = False) -> Operation[list[Any]]:
        """Run operations and coroutines side by side; their results, in this order.

        The first failure cancels the others and is raised once they have ended, except with
        `return_exceptions`, which puts each `Exception` into the list.
        """
        place = _place_of(sys._getframe(1))
        _check_parts("gather", parts)
        return Branches(self._gate, place, "gather", parts, return_exceptions=return_exceptions)

    def race(self, *parts: Branchable) -> Operation[Winner]:
        """Run operations and coroutines side by side until the first one ends; the others are cancelled.

        Gives the winner's index and value, or raises its exception, once the losers have ended. What a loser
        returns or raises after that is dropped.
        """
        place = _place_of(sys._getframe(1))
        _check_parts("race", parts)
        if not parts:
            raise InvalidOperationError("ctx.race takes at least one operation or coroutine")
        return Branches(self._gate, place, "race", parts)


def script_program(script: Script) -> Callable[[ScriptContext, bytes], Coroutine[Any, Any, bytes]]:
    """The program of a script: input checked, the function, output checked."""
    function: Callable[..., Awaitable[Any]] = script.function

    async def program(context: ScriptContext, data: bytes) -> bytes:
        value = read_input(script.input, data)
        return write_output(script.output, await function(context, value))

    return program


def flow_call(context: ScriptContext, step: FlowStep, value: object) -> Operation[Any]:
    """The call of a flow's step, under the step's id."""
    gate = context._gate
    return Call(gate, step.line, step.tool, merge_fields(step.tool, value, {}), op=step.id, retry=step.retry)


def flow_branches(
    context: ScriptContext, line: str, steps: Sequence[Branchable], after: Sequence[Sequence[int]], op: str
) -> Operation[list[Any]]:
    """The steps of a flow, step i after those of `after[i]`. A failure is decided under the id `op`."""
    return Branches(context._gate, line, "flow", steps, after=after, op=op)


def read_input(shape: Shape, data: bytes) -> Any:
    """The validated input. Raises `ProgramFailed`."""
    try:
        return read(shape, data)
    except ValueInvalidError as error:
        raise ProgramFailed("input-validation-failed", str(error)) from error


def write_output(shape: Shape | None, value: object) -> bytes:
    """The output as canonical JSON, checked if there is a shape. Raises `ProgramFailed`."""
    try:
        if shape is None:
            return canonicalise(encode_arguments(value, "the output"))
        return write(shape, value)
    except ToolError as error:
        raise ProgramFailed("output-validation-failed", str(error)) from error


def _check_parts(kind: str, parts: tuple[Any, ...]) -> None:
    for part in parts:
        if isinstance(part, Operation):
            continue
        if not isinstance(part, CoroutineType):
            _refuse_parts(parts, f"ctx.{kind} takes operations and coroutines, not {type(part).__name__}")
        if not _has_not_begun(part):
            _refuse_parts(parts, f"ctx.{kind} takes coroutines that haven't been awaited")
    if len(set(map(id, parts))) < len(parts):
        _refuse_parts(parts, f"ctx.{kind} takes each operation and coroutine once")


def _refuse_parts(parts: tuple[Any, ...], reason: str) -> NoReturn:
    discard(parts)
    raise InvalidOperationError(reason)


def discard(parts: Sequence[Any]) -> None:
    """Close those of `parts` that are coroutines and haven't begun, so that nobody misses an `await`."""
    for part in parts:
        if isinstance(part, CoroutineType) and _has_not_begun(part):
            part.close()


def _has_not_begun(coroutine: "CoroutineType[Any, Any, Any]") -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _place_of(frame: FrameType) -> Place:
    return frame.f_globals.get("__name__", "<unknown>"), frame.f_lineno


def _checked_duration(duration: object) -> timedelta:
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        try:
            duration = timedelta(seconds=duration)
        except (OverflowError, ValueError):
            duration = None
    if not isinstance(duration, timedelta) or not timedelta(0) <= duration <= MAX_SLEEP:
        raise InvalidOperationError("ctx.sleep takes a timedelta or seconds, from 0 to 36,500 days")
    return duration


def _unit_interval(text: str) -> float:
    return (int(text, 16) >> 11) * 2.0**-53
