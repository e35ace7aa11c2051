"""Doing what a turn decided: whatever a script's own function raises is how its step ended."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from abeyance.engine import decisions
from abeyance.engine.calls import CallFailure, CallOutput
from abeyance.engine.effects import Workshop, context_of, perform
from abeyance.engine.operations import StepRequest
from abeyance.engine.turn import Effect
from tests.unit.engine.programs import KEY

pytestmark = pytest.mark.anyio


async def result_of(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> CallOutput | CallFailure:
    """How the step ended, as it would be recorded."""
    ended: list[Any] = []
    monkeypatch.setattr(decisions, "step_ended", lambda turn, request, result: ended.append(result))
    request = StepRequest(op="1", name="step", args="0" * 32, line="shop:1", run=run)
    effect = Effect(op="1", request=request)
    with ThreadPoolExecutor(1) as threads:
        workshop = Workshop(threads, asyncio.Semaphore(1), lambda: "http://public.example")
        decide = await asyncio.wait_for(perform(effect, context_of(effect, KEY, ""), workshop), 5)
    decide(None)  # type: ignore[arg-type]
    found: CallOutput | CallFailure = ended[0]
    return found


class TestStepFunction:
    @pytest.mark.parametrize(
        "error",
        [KeyError, StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError],
    )
    @pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
    async def test_whatever_it_raises_fails_the_step(
        self, error: type[BaseException], kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def plain() -> None:
            raise error

        async def asynchronous() -> None:
            raise error

        run: dict[str, Callable[[], Any]] = {
            "plain": plain,
            "async": asynchronous,
            "awaitable": functools.partial(lambda: asynchronous()),
        }

        ended = await result_of(run[kind], monkeypatch)

        assert isinstance(ended, CallFailure)
        assert "handler-error" == ended.code

    async def test_a_stop_of_the_process_is_no_end_of_the_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        inside = asyncio.Event()

        async def waits() -> None:
            inside.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(result_of(waits, monkeypatch))
        await inside.wait()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
