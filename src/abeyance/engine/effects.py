"""Doing what a turn decided: a tool's handler, or a script's own function, each run once.

Nothing is open in the store meanwhile. The result comes back as a command to the run's actor.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Executor as Threads
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from abeyance.engine import decisions
from abeyance.engine.calls import CallFailure, CallOutput, run_call
from abeyance.engine.links import link_url
from abeyance.engine.operations import CallRequest, StepRequest
from abeyance.engine.tool_context import ToolContext, WaitToken
from abeyance.engine.turn import Effect, Turn, call_key
from abeyance.journal import canonical

_log = logging.getLogger("abeyance.effects")


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where effects run: the threads of sync tools, the bound of calls at once, the address links are made
    of."""

    threads: Threads
    calls: asyncio.Semaphore
    public_url: Callable[[], str]


def context_of(effect: Effect, run_id: UUID, public_url: str) -> ToolContext:
    """The context that the handler gets."""
    request = effect.request
    tool_id = request.tool.id if isinstance(request, CallRequest) else request.name
    token = None
    if effect.link is not None and effect.wait is not None:
        token = WaitToken(effect.wait, link_url(public_url, effect.link.token))
    return ToolContext(
        run_id=str(run_id),
        idempotency_key=str(effect.key or call_key(run_id, effect.op, tool_id)),
        tool_id=tool_id,
        attempt=effect.attempt,
        wait_token=token,
    )


async def perform(effect: Effect, context: ToolContext, workshop: Workshop) -> Callable[[Turn], None]:
    """Run the effect once; the command that records how it ended."""
    request = effect.request
    async with workshop.calls:
        if isinstance(request, CallRequest):
            result = await run_call(request.tool, request.input, context, threads=workshop.threads)
            return lambda turn: decisions.call_ended(turn, effect, result)
        ended = await _run_step(request, workshop.threads)
        return lambda turn: decisions.step_ended(turn, request, ended)


async def _run_step(request: StepRequest, threads: Threads) -> CallOutput | CallFailure:
    try:
        if inspect.iscoroutinefunction(request.run):
            value = await request.run()
        else:
            value = await asyncio.get_running_loop().run_in_executor(threads, _run_plain, request.run)
            if isinstance(value, _Broke):
                raise value.error
            if inspect.isawaitable(value):
                value = await value
        return CallOutput(canonical.encode(value))
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # this process stops; else the function raised it
        _log.warning("step %s at %s failed: %s", request.name, request.line, type(error).__name__)
        return CallFailure("handler-error", f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class _Broke:
    error: BaseException


def _run_plain(run: Callable[[], Any]) -> Any:
    """What `run` returned, or raised: a `StopIteration` could not leave its thread by itself."""
    try:
        return run()
    except BaseException as error:
        return _Broke(error)
