"""Many at once on one run, or on many runs at one moment: who wins, and what everybody is told."""

import asyncio
import time
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from abeyance import PauseAnswer, ToolContext, flow, script, step, tool
from abeyance.engine.executor import Limits
from abeyance.engine.scripting import ScriptContext
from abeyance.errors import RunAlreadyTerminalError
from tests.support.carrier import Carrier, Empty, Loose, one_step, pausing, refusal
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio


class TestAnswers:
    async def test_answers_of_parallel_waits_from_all_sides_count_once_each(
        self, deployment: Deployment, seed: int
    ) -> None:
        """Eight waits, three processes, each answer sent twice, in any order. So do handlers run."""
        links: dict[int, str] = {}

        @tool(id="t.pause", pauses=True)
        def pause(given: Loose, ctx: ToolContext) -> Loose | PauseAnswer:
            links[given.root] = ctx.wait_token.url
            return ctx.pause(timeout_ms=60_000)

        @script(id="t.eight")
        async def program(ctx: ScriptContext, given: Empty) -> Loose:
            answers = await ctx.gather(*(ctx.call(pause, Loose(number)) for number in range(8)))
            return Loose([answer.root for answer in answers])

        async with (
            deployment.process(program, pause) as one,
            deployment.process(program, pause) as two,
            deployment.process(program, pause, limits=Limits(execute=False)) as three,
        ):
            view = await one.start(program)
            assert view.waiting_for is not None
            sent = [(url, str(number).encode()) for number, url in links.items()] * 2
            Random(seed).shuffle(sent)
            sides = [(one, two, three)[place % 3] for place in range(len(sent))]

            told = await asyncio.gather(
                *(refusal(side, url, value) for side, (url, value) in zip(sides, sent, strict=True))
            )

            assert {None} == set(told)
            ended = await one.settled(view.id)
            assert b"[0,1,2,3,4,5,6,7]" == ended.output
            topics = await one.topics(view.id)
            assert 8 == topics.count("wait-token-completed")
            assert 0 == topics.count("rerun")

    @pytest.mark.case("N04")
    async def test_answer_and_cancel_agree_with_what_became_of_the_run(self, deployment: Deployment) -> None:
        """An answer that was accepted is in the journal before the end; a refused one is nowhere."""
        told_both = set()
        for number in range(12):
            carrier = Carrier()
            ship = one_step(pausing(carrier))
            async with deployment.process(ship) as one, deployment.process(ship) as two:
                view = await one.start(ship)
                answering, cancelling = (one, two) if number % 2 else (two, one)

                async def cancel(process: EngineProcess = cancelling, run_id: UUID = view.id) -> bool:
                    try:
                        await process.runs.cancel(run_id)
                    except RunAlreadyTerminalError:
                        return False
                    return True

                both = (refusal(answering, carrier.urls[0], b"1"), cancel())
                refused, cancelled = await asyncio.gather(*both)

                ended, topics = await one.settled(view.id), await one.topics(view.id)
                assert refused in (None, "cancelled")
                assert (refused is None) == ("wait-token-completed" in topics)
                assert cancelled == (ended.status == "cancelled") == (topics[-1] == "cancelled")
                told_both.add((refused, cancelled))
        assert told_both


class TestClockJumps:
    @pytest.mark.case("L04")
    @pytest.mark.parametrize("hours", [-1, 1, 87_600])
    async def test_a_jump_during_a_wait_moves_no_deadline(self, deployment: Deployment, hours: int) -> None:
        """The stored time decides, by the clock as it is now; events keep their order."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            assert view.waiting_for is not None
            before = view.waiting_for.tokens[0].times_out_at
            deployment.world.advance(timedelta(hours=hours))
            if hours < 0:
                waiting = (await process.runs.get(view.id)).waiting_for
                assert waiting is not None
                assert before == waiting.tokens[0].times_out_at
                await process.answer(carrier.urls[0], b"1")

            ended = await process.settled(view.id)

            code = None if ended.failure is None else ended.failure.code
            assert {-1: None, 1: "wait-token-timed-out", 87_600: "run-expired"}[hours] == code
            times = [recorded.at for recorded in await process.history(view.id)]
            assert sorted(times) == times

    @pytest.mark.case("L04", "L02")
    @pytest.mark.parametrize("hours", [-1, 1, 87_600])
    async def test_a_jump_while_a_handler_runs_runs_it_no_second_time(
        self, deployment: Deployment, hours: int
    ) -> None:
        """The process that has the call sees its own lease run out, and goes on."""
        inside, go, runs = asyncio.Event(), asyncio.Event(), list[int]()

        @tool(id="t.slow")
        async def slow(given: Empty) -> Loose:
            runs.append(1)
            inside.set()
            await go.wait()
            return Loose("done")

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            await inside.wait()
            deployment.world.advance(timedelta(hours=hours))
            await asyncio.sleep(0.1)
            go.set()

            ended = await process.settled(view.id)

            assert [1] == runs
            if hours < 10:
                assert b'"done"' == ended.output
            else:
                assert ended.failure is not None
                assert "run-expired" == ended.failure.code


@pytest.mark.slow
class TestStorms:
    @pytest.fixture
    def hot_runs(self) -> int | None:
        """Once is enough for these."""
        return None

    @pytest.mark.case("L06")
    async def test_a_thousand_waits_of_one_millisecond_fail_once_each(self, deployment: Deployment) -> None:
        """No timer is left over, and nothing is in the journal twice."""
        ship = one_step(pausing(Carrier(), timeout_ms=1))
        async with deployment.process(ship) as process:
            started = [
                view
                for _ in range(20)
                for view in await asyncio.gather(*(process.start(ship, wait=False) for _ in range(50)))
            ]
            for view in started:
                ended = await process.settled(view.id, within_s=60)
                assert ended.failure is not None
                assert "wait-token-timed-out" == ended.failure.code
                topics = await process.topics(view.id)
                assert 1 == topics.count("wait-token-timed-out")
                assert "failed" == topics[-1]
            assert [] == await _open_waits(deployment)

    @pytest.mark.case("L10")
    async def test_answers_are_taken_while_many_deadlines_pass_at_once(self, deployment: Deployment) -> None:
        """Three hundred waits end in one moment in two processes; answers to others don't queue behind."""
        late, prompt = Carrier(), Carrier()
        slow = flow("t.late", input=Empty, steps=[step("x", pausing(late, id="t.late"))])
        quick = flow("t.prompt", input=Empty, steps=[step("x", pausing(prompt, timeout_ms=3_600_000))])
        async with deployment.process(slow, quick, loops=False) as starter:
            late_runs = [(await starter.start(slow)).id for _ in range(300)]
            prompt_runs = [(await starter.start(quick)).id for _ in range(20)]
        deployment.world.advance(timedelta(seconds=61))

        took = []
        async with deployment.process(slow, quick) as one, deployment.process(slow, quick) as two:
            for number, url in enumerate(prompt.urls):
                began = time.monotonic()
                await (one if number % 2 else two).answer(url, b"1")
                took.append(time.monotonic() - began)
            ends = [await one.settled(run_id, within_s=30) for run_id in prompt_runs + late_runs]

            assert ["completed"] * 20 + ["failed"] * 300 == [view.status for view in ends]
            assert sorted(took)[10] < 1.0
            for run_id in late_runs:
                assert 1 == (await two.topics(run_id)).count("wait-token-timed-out")


async def _open_waits(deployment: Deployment) -> list[Any]:
    async with deployment.store.snapshot() as snapshot:
        streams: list[UUID] = []
        while page := await snapshot.streams(streams[-1] if streams else None, 500):
            streams += page
        return [wait for wait in await snapshot.waits(streams) if wait.closed is None]
