"""Cancelling, on both stores."""

import asyncio

import pytest

from abeyance import PauseAnswer, ToolContext, tool
from abeyance.errors import RunAlreadyTerminalError
from tests.support.carrier import Carrier, Empty, Loose, closed_state, one_step, pausing
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio


class TestCancel:
    async def test_a_waiting_run_is_cancelled_and_its_link_says_so(self, deployment: Deployment) -> None:
        """Once; a second cancel is told that the run has ended."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process, deployment.process(ship, loops=False) as other:
            view = await process.start(ship)

            assert "cancelled" == (await other.runs.cancel(view.id)).status

            assert "cancelled" == await closed_state(process, carrier.urls[0])
            with pytest.raises(RunAlreadyTerminalError):
                await process.runs.cancel(view.id)

    async def test_a_running_call_sees_that_it_was_cancelled_and_its_result_is_dropped(
        self, deployment: Deployment
    ) -> None:
        """The handler is told through its context; nothing follows the end."""
        seen, inside = asyncio.Event(), asyncio.Event()

        @tool(id="t.slow")
        async def slow(given: Empty, ctx: ToolContext) -> Loose:
            inside.set()
            while not ctx.cancelled:
                await asyncio.sleep(0.005)
            seen.set()
            return Loose(1)

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            await inside.wait()

            await process.runs.cancel(view.id)

            await asyncio.wait_for(seen.wait(), 5)
            assert "cancelled" == (await process.topics(view.id))[-1]

    async def test_a_held_answer_is_discarded_in_the_batch_that_cancels(self, deployment: Deployment) -> None:
        """The discard stands before the end, and says why."""
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            await gate.wait()
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            await process.answer(carrier.urls[0], b"1")

            await process.runs.cancel(view.id)
            gate.set()

            assert ["wait-token-discarded", "cancelled"] == (await process.topics(view.id))[-2:]
            assert "cancelled" == await closed_state(process, carrier.urls[0], b"1")
