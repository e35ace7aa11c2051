"""A check says of an answer what the answer itself would be told, and changes nothing."""

import asyncio
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abeyance import PauseAnswer, ToolContext, tool
from abeyance.errors import AnswerInvalidError, RefusedError, WaitTokenClosedError
from tests.support.carrier import Carrier, Empty, Strict, one_step, pausing
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio

FIT, OTHER, UNFIT = b'{"pickupId":"pk_7"}', b'{"pickupId":"pk_8"}', b'{"pickupId":7}'
FEW = settings(
    max_examples=max(5, settings().max_examples // 4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ANSWERS = st.tuples(
    st.sampled_from(["link", "app", "wrong link", "wrong id"]), st.sampled_from([FIT, OTHER, UNFIT])
)
EVENTS = st.sampled_from(["let it pause", "cancel", "time passes", "suspend its project"])
PROJECTS = count()
PLAYS = st.lists(st.one_of(ANSWERS, ANSWERS, EVENTS), min_size=1, max_size=6)


class Play:
    """One run whose handler pauses when it is let, and what both ways of answering say."""

    def __init__(self, deployment: Deployment, process: EngineProcess, run: Any, url: str) -> None:
        self.deployment, self.process, self.run = deployment, process, run
        self.token = url.rsplit("/", 2)[1]
        self.wait_id = ""

    async def verdicts(self, way: str, value: bytes) -> tuple[Any, Any]:
        """What a check says, and what the answer right after it is told."""
        said: list[Any] = []
        for dry in (True, False):
            try:
                await self._answer(way, value, dry=dry)
                said.append("taken")
            except RefusedError as error:
                said.append((error.code, getattr(error, "state", None), getattr(error, "issues", None)))
        return said[0], said[1]

    async def _answer(self, way: str, value: bytes, *, dry: bool) -> None:
        runs = self.process.runs
        if "link" in way:
            link = await runs.open_link(self.token if way == "link" else "wrong")
            await (link.check(value) if dry else link.answer(value))
            return
        name = self.wait_id if way == "app" else "pause:00000000-0000-5000-8000-000000000001:1"
        if dry:
            await runs.check_resume(self.run.id, name, value)
        else:
            await runs.resume(self.run.id, name, value, wait_s=0)


class TestAnyPlay:
    @FEW
    @given(play=PLAYS)
    async def test_a_check_says_acceptable_if_and_only_if_the_answer_right_after_is_taken(
        self, deployment: Deployment, play: list[Any]
    ) -> None:
        carrier, gate, ids = Carrier(), asyncio.Event(), []

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Strict | PauseAnswer:
            ids.append(ctx.wait_token.id)
            carrier.hand(ctx)
            await gate.wait()
            return ctx.pause(timeout_ms=3_600_000)

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            project = f"p{next(PROJECTS)}"
            await process.tenants.create_project("default", project, actor=None)
            run = await process.start(ship, wait=False, project=project)
            await carrier.was_handed(1)
            stage = Play(deployment, process, run, carrier.urls[0])
            stage.wait_id = ids[0]
            for number, move in enumerate(play):
                if move == "let it pause":
                    gate.set()
                    await process.settled(run.id, "suspended", "completed", "failed", "cancelled")
                elif move == "cancel":
                    try:
                        await process.runs.cancel(run.id)
                    except RefusedError:
                        pass
                elif move == "suspend its project" and play.index(move) == number:
                    await process.tenants.suspend_project("default", project, actor=None)
                elif move == "suspend its project":
                    continue
                elif move == "time passes":
                    deployment.world.advance(timedelta(hours=2))
                else:
                    checked, told = await stage.verdicts(*move)

                    assert told == checked, (move, play)
            gate.set()


class TestCheck:
    async def test_a_check_leaves_no_trace(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Strict))
        async with deployment.process(ship) as process:
            run = await process.start(ship)
            before = await process.topics(run.id)
            link = await process.runs.open_link(carrier.urls[0].rsplit("/", 2)[1])

            await link.check(FIT)
            with pytest.raises(AnswerInvalidError):
                await link.check(UNFIT)
            await link.check(OTHER)

            assert before == await process.topics(run.id)
            assert "suspended" == (await process.runs.get(run.id)).status

    async def test_a_check_of_a_wait_that_took_another_answer_says_so(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Strict))
        async with deployment.process(ship) as process:
            run = await process.start(ship)
            await process.answer(carrier.urls[0], FIT)
            await process.settled(run.id)
            link = await process.runs.open_link(carrier.urls[0].rsplit("/", 2)[1])

            await link.check(FIT)
            with pytest.raises(WaitTokenClosedError) as caught:
                await link.check(OTHER)

            assert "completed" == caught.value.state


class TestQuestion:
    async def test_it_has_the_name_the_schema_and_the_deadline(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Strict))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            link = await process.runs.open_link(carrier.urls[0].rsplit("/", 2)[1])

            question = await link.ask()

            assert view.waiting_for is not None
            (token,) = view.waiting_for.tokens
            assert ("the carrier", "open", token.times_out_at) == (
                question.name,
                question.state,
                question.times_out_at,
            )
            assert Strict.model_json_schema() == question.schema

    @pytest.mark.parametrize("end", ["completed", "timed-out", "cancelled"])
    async def test_it_says_how_the_wait_has_closed(self, deployment: Deployment, end: str) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Strict, timeout_ms=3_600_000))
        async with deployment.process(ship) as process:
            run = await process.start(ship)
            if end == "completed":
                await process.answer(carrier.urls[0], FIT)
            elif end == "cancelled":
                await process.runs.cancel(run.id)
            else:
                deployment.world.advance(timedelta(hours=2))

            question = await (await process.runs.open_link(carrier.urls[0].rsplit("/", 2)[1])).ask()

            assert (end, None) == (question.state, question.times_out_at)
