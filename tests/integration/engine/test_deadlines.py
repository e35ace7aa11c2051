"""Deadlines on both stores: of waits, of retries, of the run."""

import asyncio
from datetime import timedelta

import pytest

from abeyance import PauseAnswer, Retry, ToolContext, tool
from tests.support.carrier import Carrier, Empty, Loose, closed_state, one_step, pausing, refusal
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio


class TestDeadline:
    @pytest.mark.case("A08")
    async def test_a_late_answer_is_refused_although_no_sweeper_ran(self, deployment: Deployment) -> None:
        """The stored time decides; then the sweeper runs, and the call fails."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, timeout_ms=60_000))
        async with deployment.process(ship, loops=False) as process:
            view = await process.start(ship)
            deployment.world.advance(timedelta(seconds=61))

            assert "timed-out" == await closed_state(process, carrier.urls[0])
        async with deployment.process(ship) as process:
            ended = await process.settled(view.id)
            assert ended.failure is not None
            assert "wait-token-timed-out" == ended.failure.code
            assert "timed-out" == await closed_state(process, carrier.urls[0])

    @pytest.mark.case("L06")
    async def test_a_timeout_of_one_millisecond_fails_once(self, deployment: Deployment) -> None:
        """No timer is left over, and the failure is in the journal once."""
        ship = one_step(pausing(Carrier(), timeout_ms=1))
        async with deployment.process(ship) as process:
            ended = await process.settled((await process.start(ship)).id)

            topics = await process.topics(ended.id)
            assert 1 == topics.count("wait-token-timed-out")
            assert "failed" == topics[-1]

    @pytest.mark.case("A09", "L08")
    async def test_reply_and_fate_agree_when_answer_and_timeout_race(self, deployment: Deployment) -> None:
        """For every run: accepted means completed with the answer, refused means failed by time."""
        rounds, outcomes = 30, set()
        for number in range(rounds):
            carrier = Carrier()
            ship = one_step(pausing(carrier, timeout_ms=20))
            async with deployment.process(ship) as process, deployment.process(ship) as other:
                view = await process.start(ship)
                await asyncio.sleep(0.014 + number % 10 / 1000)
                refused = await refusal(process if number % 2 else other, carrier.urls[0], b"1")
                assert refused in (None, "timed-out")
                accepted = refused is None
                ended = await process.settled(view.id)
                assert ("completed" if accepted else "failed") == ended.status
                topics = await process.topics(view.id)
                assert 1 == topics.count("wait-token-completed") + topics.count("wait-token-timed-out")
                outcomes.add(accepted)
        assert outcomes

    @pytest.mark.case("A15")
    async def test_a_retry_waits_on_a_new_link_and_the_old_one_is_refused(
        self, deployment: Deployment
    ) -> None:
        """The first wait times out, the step's retry hands out another link; the key stays the same."""
        carrier = Carrier()

        @tool(id="t.pause", pauses=True)
        def handler(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            return ctx.pause(timeout_ms=20 if ctx.attempt == 1 else 60_000)

        ship = one_step(handler, retry=Retry(attempts=2))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            await carrier.was_handed(2)

            assert "timed-out" == await closed_state(process, carrier.urls[0])
            assert carrier.keys[0] == carrier.keys[1]
            await process.answer(carrier.urls[1], b'"second"')
            ended = await process.settled(view.id)
            assert b'"second"' == ended.output

    async def test_a_run_whose_time_to_live_passes_fails(self, deployment: Deployment) -> None:
        """Every wait is bounded by it, and the link says cancelled."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, timeout_ms=2_073_600_000))
        async with deployment.process(ship) as process:
            view = await process.start(ship, ttl_ms=86_400_000)
            assert view.waiting_for is not None
            assert view.expires_at == view.waiting_for.tokens[0].times_out_at
            deployment.world.advance(timedelta(days=1, seconds=1))
            process.executor.hint(view.id)

            ended = await process.settled(view.id)
            assert ended.failure is not None
            assert "run-expired" == ended.failure.code
