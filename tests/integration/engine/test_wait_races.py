"""Changes of waits race answers and timeouts on both stores: one conditional append decides."""

import asyncio
from datetime import timedelta

import pytest

from abeyance.errors import WaitTokenClosedError, WaitTokenNotFoundError
from tests.support.barriers import Places
from tests.support.carrier import Carrier, one_step, pausing, refusal
from tests.support.engine import Deployment
from tests.support.standing import assert_rows_follow
from tests.support.wait_changes import CHANGES, HOUR, change, token_of, waiting

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("what", CHANGES)
class TestRaces:
    """One conditional append decides; the loser reads again and is told what is true then."""

    async def test_an_answer_that_comes_first_refuses_the_change(
        self, deployment: Deployment, what: str
    ) -> None:
        carrier, places = Carrier(), Places()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship, barrier=places) as one, deployment.process(ship) as two:
            run_id, wait = await waiting(one, ship)
            stop = places.stop("append", "wait-token-extended" if what == "extend" else "link-")
            until = deployment.world.now() + HOUR
            changing = asyncio.create_task(change(one, what, run_id, wait, until))
            async with stop:
                assert await refusal(two, carrier.urls[0], b"1") is None

            with pytest.raises(WaitTokenClosedError) as caught:
                await changing

            assert "completed" == caught.value.state
            assert "completed" == (await two.settled(run_id)).status
            topics = await two.topics(run_id)
            assert not {"wait-token-extended", "link-rotated", "link-revoked"} & set(topics)
            assert await refusal(two, carrier.urls[0], b"1") is None

    async def test_a_change_that_comes_first_decides_what_the_answer_is_told(
        self, deployment: Deployment, what: str
    ) -> None:
        """A link that was killed meanwhile is unknown; under a later deadline the answer is taken."""
        carrier, places = Carrier(), Places()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship, barrier=places) as one, deployment.process(ship) as two:
            run_id, wait = await waiting(one, ship)
            stop = places.stop("append", "wait-token-completed")
            answering = asyncio.create_task(one.answer(carrier.urls[0], b"1"))
            async with stop:
                await change(two, what, run_id, wait, deployment.world.now() + HOUR)

            if what == "extend":
                await answering
                assert "completed" == (await one.settled(run_id)).status
            else:
                with pytest.raises(WaitTokenNotFoundError):
                    await answering
                assert "suspended" == (await one.runs.get(run_id)).status
            await assert_rows_follow(deployment.store, one.desk)

    async def test_a_timeout_that_comes_first_refuses_the_change(
        self, deployment: Deployment, what: str
    ) -> None:
        places = Places()
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, barrier=places, loops=False) as one:
            run_id, wait = await waiting(one, ship)
            stop = places.stop("append", "wait-token-extended" if what == "extend" else "link-")
            until = deployment.world.now() + HOUR
            changing = asyncio.create_task(change(one, what, run_id, wait, until))
            async with stop, deployment.process(ship) as two:
                deployment.world.advance(timedelta(seconds=61))
                await two.settled(run_id)

            with pytest.raises(WaitTokenClosedError) as caught:
                await changing
            assert "timed-out" == caught.value.state

    async def test_a_change_that_comes_first_makes_the_timeout_think_again(
        self, deployment: Deployment, what: str
    ) -> None:
        """The sweeper's clock was ahead: what it decided isn't appended over the change."""
        places = Places()
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, loops=False) as operator:
            run_id, wait = await waiting(operator, ship)
            stop = places.stop("append", "wait-token-timed-out")
            deployment.world.advance(timedelta(seconds=61))
            async with deployment.process(ship, barrier=places):
                async with stop:
                    deployment.world.advance(timedelta(seconds=-61))
                    await change(operator, what, run_id, wait, deployment.world.now() + HOUR)
                view = await operator.settled(run_id, "suspended")
                await asyncio.sleep(0.1)

            assert wait == token_of(view).token_id
            assert "wait-token-timed-out" not in await operator.topics(run_id)
