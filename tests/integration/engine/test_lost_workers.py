"""Workers that are lost or drained in the middle of a call, on both stores."""

import asyncio

import pytest

from abeyance import PauseAnswer, ToolContext, tool
from abeyance.engine.executor import Limits
from tests.support.carrier import (
    Carrier,
    Empty,
    Loose,
    closed_state,
    expire_leases,
    hanging,
    lose_worker,
    one_step,
    pausing,
)
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio


class TestLostWorker:
    @pytest.mark.case("A14")
    async def test_five_lost_runs_then_the_call_fails_and_every_link_is_dead(
        self, deployment: Deployment
    ) -> None:
        """Each re-run has the same key and a fresh link to the same wait; there is no sixth run."""
        carrier = Carrier()
        hang = hanging(carrier)
        ship = one_step(hang)
        run_id = await lose_worker(deployment, ship, carrier, None)
        for _ in range(4):
            await lose_worker(deployment, ship, carrier, run_id)

        async with deployment.process(ship) as process:
            expire_leases(deployment)
            ended = await process.settled(run_id)

            assert ended.failure is not None
            assert "wait-token-reruns-exhausted" == ended.failure.code
            assert 5 == len(carrier.urls)
            assert 5 == len(set(carrier.urls))
            assert 1 == len(set(carrier.keys))
            for url in carrier.urls:
                assert "unused" == await closed_state(process, url)

    @pytest.mark.case("A14")
    async def test_any_link_of_a_lost_run_answers_the_one_wait(self, deployment: Deployment) -> None:
        """Link 1 answers after the call was run again; link 2 then knows the answer."""
        carrier = Carrier()
        run_id = await lose_worker(deployment, one_step(hanging(carrier)), carrier, None)
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            expire_leases(deployment)
            await process.settled(run_id, "suspended")

            await process.answer(carrier.urls[0], b"1")

            await process.settled(run_id)
            await process.answer(carrier.urls[1], b"1")
            assert "completed" == await closed_state(process, carrier.urls[1], b"2")

    async def test_a_worker_that_lost_its_lease_appends_nothing_more(self, deployment: Deployment) -> None:
        """Its late result is refused by the append; the run is the other's."""
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            if len(carrier.urls) == 1:
                await gate.wait()
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship, loops=False) as stale:
            view = await stale.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            expire_leases(deployment)
            async with deployment.process(ship) as fresh:
                await fresh.settled(view.id, "suspended")
                before = await fresh.topics(view.id)

                gate.set()
                await asyncio.sleep(0.1)

                assert before == await fresh.topics(view.id)
                assert ["started", "call-started", "rerun", "call-paused", "suspended"] == before

    async def test_a_drained_call_is_run_again_and_not_counted(self, deployment: Deployment) -> None:
        """A call given back by a stop has all its five runs left."""
        carrier, cut = Carrier(), {"done": False}

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            if not cut["done"]:
                await asyncio.sleep(60)
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship, limits=Limits(poll_s=0.02, grace_s=0, drain_s=0.05)) as process:
            view = await process.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            cut["done"] = True

        async with deployment.process(ship) as process:
            await process.settled(view.id, "suspended")
            reruns = [r.event for r in await process.history(view.id) if r.topic == "rerun"]
            assert [("drained", 1), ("drained", 1)] == [(r.cause, r.ordinal) for r in reruns]  # type: ignore[attr-defined]
