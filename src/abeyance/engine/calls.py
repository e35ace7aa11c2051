"""Running one handler once: its input checked, its time limited, its result checked and made canonical.

`run_call` never raises for what a tool does: whatever a handler raises, `SystemExit` and `KeyboardInterrupt`
included, fails its call and nothing else. What holds besides:

1. The handler runs only with an input that fits both the tool's input schema and its model; what it returns
   is taken only if its JSON fits the output schema and reads back into the model, as an answer must.
2. A call that was told no pause is possible, or asked for a wrong one, fails with that, even if the handler
   swallowed the error. Only the context's own answer pauses.
3. Past `timeout_ms` the call has failed. An `async` handler is cancelled; a thread can't be stopped, so a
   sync one goes on, sees `ctx.cancelled`, keeps its thread until it returns, and its late result is dropped.
4. No link goes into a log or a failure's detail (`<link>` stands there), and no input, output or error text
   into a log, except at debug level. The detail may hold a user's words, so it is content.
"""

import asyncio
import contextvars
import logging
import traceback
import types
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from abeyance.engine import values
from abeyance.engine.definitions import Tool
from abeyance.engine.tool_context import PauseAnswer, ToolContext
from abeyance.errors import ValueInvalidError

MAX_DETAIL_LENGTH = 4_000
BLOCKED_S = 0.25
"""An `async` handler that holds the loop longer than this is named in a warning: everything else stood still.
"""
_QUEUE_CHECK_S = 0.05

_log = logging.getLogger("abeyance.calls")
_unfinished: set["asyncio.Future[CallResult]"] = set()  # the loop itself keeps only weak references


@dataclass(frozen=True, slots=True)
class CallOutput:
    """The handler returned. `output` is canonical JSON."""

    output: bytes


@dataclass(frozen=True, slots=True)
class CallPause:
    """The handler returned `ctx.pause()`: wait `timeout_ms` for an answer. `line` is where it paused."""

    timeout_ms: int
    name: str | None
    line: str


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The call failed. `code` is one of the failure codes of calls; `detail` may hold a user's words."""

    code: str
    detail: str


CallResult = CallOutput | CallPause | CallFailure


async def run_call(tool: Tool, given: bytes, context: ToolContext, *, threads: Executor) -> CallResult:
    """Run the tool's handler once with the input `given` (canonical JSON). A sync handler runs in `threads`.

    The time limit counts from when the handler starts, not from when it is queued. If this coroutine is
    cancelled, so is the handler, as far as it can be, and `CancelledError` is raised.
    """
    loop = asyncio.get_running_loop()
    started: list[float] = []
    work: asyncio.Future[CallResult]
    if tool.is_async:
        work = loop.create_task(_run_async(tool, given, context))
        started.append(loop.time())
    else:
        # The caller's context variables hold in the thread too, as in `asyncio.to_thread`.
        run = contextvars.copy_context().run
        work = loop.run_in_executor(
            threads, run, _run_sync, tool, given, context, lambda: started.append(loop.time())
        )
    _unfinished.add(work)
    work.add_done_callback(_unfinished.discard)
    try:
        ended = await _ended_in_time(work, started, tool.timeout_ms / 1_000)
    except asyncio.CancelledError:
        _drop(work, context)
        raise
    if ended:
        return work.result()
    _drop(work, context)
    _log.warning("a call of %s is over its time limit", tool.id, extra={"toolId": tool.id})
    return CallFailure("handler-timeout", f"the handler had not returned after {tool.timeout_ms} ms")


async def _ended_in_time(work: "asyncio.Future[CallResult]", started: list[float], limit_s: float) -> bool:
    now = asyncio.get_running_loop().time
    while not work.done():
        remaining_s = started[0] + limit_s - now() if started else max(limit_s, _QUEUE_CHECK_S)
        if remaining_s <= 0:
            return False
        await asyncio.wait((work,), timeout=remaining_s)
    return True


def _drop(work: "asyncio.Future[CallResult]", context: ToolContext) -> None:
    context.cancel()
    work.cancel()


def _run_sync(tool: Tool, given: bytes, context: ToolContext, on_start: Callable[[], None]) -> CallResult:
    on_start()
    try:
        returned = tool.handler(*_arguments(tool, given, context))
        if isinstance(returned, Coroutine):
            returned.close()
            raise TypeError("the handler returned a coroutine: make the function `async def`")
        return _result(tool, returned, context)
    except BaseException as error:
        return _failure(tool, error, context)


async def _run_async(tool: Tool, given: bytes, context: ToolContext) -> CallResult:
    try:
        handler = tool.handler(*_arguments(tool, given, context))
        return _result(tool, await _watched(tool, handler), context)
    except BaseException as error:
        # CancelledError too: whoever cancelled this task has dropped its result.
        return _failure(tool, error, context)


@types.coroutine
def _watched(tool: Tool, handler: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await `handler`, and say so if it blocks the loop between two awaits."""
    now = asyncio.get_running_loop().time
    go_on: Callable[[Any], Any] = handler.send
    value: Any = None
    while True:
        began = now()
        try:
            awaited = go_on(value)
        except StopIteration as end:
            return end.value
        finally:
            if now() - began > BLOCKED_S:
                _log.warning(
                    "%s blocked the loop for %.2f s: make it a plain `def`, or await",
                    tool.id,
                    now() - began,
                    extra={"toolId": tool.id},
                )
        try:
            value = yield awaited
            go_on = handler.send
        except BaseException as error:
            value, go_on = error, handler.throw


def _arguments(tool: Tool, given: bytes, context: ToolContext) -> tuple[Any, ...]:
    try:
        value = values.read(tool.input, given)
    except ValueInvalidError as error:
        raise _InputInvalidError(str(error)) from error
    return (value, context) if tool.takes_context else (value,)


class _InputInvalidError(Exception):
    """The input doesn't fit; the handler wasn't run."""


def _result(tool: Tool, returned: Any, context: ToolContext) -> CallResult:
    if context.refusal is not None:
        return CallFailure(context.refusal.code, context.refusal.reason)
    if isinstance(returned, PauseAnswer):
        if not context.made(returned):
            return CallFailure("invalid-pause", "return what this call's own `ctx.pause()` made")
        return CallPause(returned.timeout_ms, returned.name, returned.line)
    return CallOutput(values.write(tool.output, returned))


def _failure(tool: Tool, error: BaseException, context: ToolContext) -> CallFailure:
    if context.refusal is not None:
        return CallFailure(context.refusal.code, context.refusal.reason)
    if isinstance(error, _InputInvalidError):
        code, detail = "input-validation-failed", str(error)
    elif isinstance(error, ValueInvalidError):
        code, detail = "output-validation-failed", str(error)
    else:
        code, detail = "handler-error", _described(error)
    _log_failure(tool, code, error, context)
    return CallFailure(code, _storable(context.redact(detail)))


def _log_failure(tool: Tool, code: str, error: BaseException, context: ToolContext) -> None:
    """Log where it failed. The error's own words may be a person's: only debug logs have them."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__]
    _log.warning(
        "a call of %s failed: %s, %s\n%s",
        tool.id,
        code,
        type(error).__name__,
        "".join(traceback.format_list(own)),
        extra={"toolId": tool.id},
    )
    if _log.isEnabledFor(logging.DEBUG):
        whole = "".join(traceback.format_exception(error))
        redacted = context.redact(whole).replace(context.idempotency_key, "<idempotency key>")
        _log.debug("%s", redacted, extra={"toolId": tool.id})


def _described(error: BaseException) -> str:
    try:
        message = str(error)
    except BaseException:
        message = "(the error's own text can't be read)"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _storable(detail: str) -> str:
    whole = detail.encode("utf-8", "backslashreplace").decode()  # lone surrogates have no UTF-8 form
    return whole if len(whole) <= MAX_DETAIL_LENGTH else whole[: MAX_DETAIL_LENGTH - 1] + "…"
