"""The main job on both stores: a tool pauses its run, the link answers it, the run goes on."""

import pytest
from pydantic import BaseModel

from abeyance import PauseAnswer, ToolContext, flow, script, step, tool
from abeyance.engine.scripting import ScriptContext
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio
LINKS: list[str] = []


class Order(BaseModel):
    orderId: str


class Pickup(BaseModel):
    pickupId: str


@tool(id="test.note")
def note(order: Order) -> Order:
    return order


@tool(id="test.pickup", pauses=True)
def pickup(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
    LINKS.append(ctx.wait_token.url)
    return ctx.pause(timeout_ms=60_000, name="the carrier's confirmation")


ship = flow("test.ship", input=Order, steps=[step("pickup", pickup)])


@script(id="test.bench")
async def bench(ctx: ScriptContext, order: Order) -> Order:
    await ctx.call(note, order)
    await ctx.call(pickup, order)
    noted: Order = await ctx.call(note, order)
    return noted


BENCH_TOPICS = [
    "started", "call-started", "call-completed", "call-started", "call-paused", "suspended",
    "wait-token-completed", "call-started", "call-completed", "completed",
]  # fmt: skip


class TestMainJob:
    async def test_a_flow_pauses_and_the_answer_is_its_result(self, deployment: Deployment) -> None:
        """Started, suspended with what it waits for, answered at the link, completed with the answer."""
        async with deployment.process(ship) as process:
            waiting = await process.start(ship, b'{"orderId":"ord_1"}')
            assert "suspended" == waiting.status
            assert waiting.waiting_for is not None
            (token,) = waiting.waiting_for.tokens
            assert ("the carrier's confirmation", "pickup") == (token.name, token.node)

            await process.answer(LINKS[-1], b'{"pickupId":"pk_7"}')

            ended = await process.settled(waiting.id)
            assert ("completed", b'{"pickupId":"pk_7"}') == (ended.status, ended.output)

    async def test_events_of_a_run_are_those_that_the_design_lists(self, deployment: Deployment) -> None:
        """Ten events, in this order, each signed and chained."""
        async with deployment.process(bench, note, pickup) as process:
            waiting = await process.start(bench, b'{"orderId":"ord_1"}')

            await process.answer(LINKS[-1], b'{"pickupId":"pk_7"}')

            await process.settled(waiting.id)
            assert BENCH_TOPICS == await process.topics(waiting.id)

    async def test_a_run_moves_between_processes(self, deployment: Deployment) -> None:
        """Started through one, which stops while the run waits; answered and finished by another."""
        async with deployment.process(bench, note, pickup) as first:
            waiting = await first.start(bench, b'{"orderId":"ord_1"}')

        async with deployment.process(bench, note, pickup) as second:
            await second.answer(LINKS[-1], b'{"pickupId":"pk_7"}')

            ended = await second.settled(waiting.id)
            assert b'{"orderId":"ord_1"}' == ended.output
            assert BENCH_TOPICS == await second.topics(waiting.id)


class TestWaitingForARun:
    async def test_a_run_is_seen_completed_without_asking_twice(self, deployment: Deployment) -> None:
        """Whoever asks while the run goes on is answered once it rests, with what was written."""
        async with deployment.process(ship) as process:
            waiting = await process.start(ship, b'{"orderId":"ord_1"}')
            await process.answer(LINKS[-1], b'{"pickupId":"pk_7"}')

            ended = await process.runs.get(waiting.id, wait_s=10)

            assert ("completed", b'{"pickupId":"pk_7"}') == (ended.status, ended.output)

    async def test_what_another_process_wrote_is_never_hidden_by_a_warm_run(
        self, deployment: Deployment
    ) -> None:
        """A run that rests here may have moved elsewhere: the stored rows answer."""
        async with deployment.process(ship) as first, deployment.process(ship, loops=False) as second:
            waiting = await first.start(ship, b'{"orderId":"ord_1"}')
            await second.answer(LINKS[-1], b'{"pickupId":"pk_7"}')
            await second.settled(waiting.id)

            assert "completed" == (await first.runs.get(waiting.id, wait_s=10)).status
