"""A run that its workers die of with nothing appended is parked, and has a way out; on both stores."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from abeyance import script, tool
from abeyance.engine.executor import Limits
from abeyance.engine.scripting import ScriptContext
from abeyance.errors import RunAlreadyTerminalError, RunNotFoundError, RunNotParkedError
from abeyance.journal import events as e
from abeyance.projections.views import RunView
from tests.support.carrier import Carrier, Empty, Loose, expire_leases, one_step, pausing, refusal
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio

QUICK = Limits(poll_s=0.02, grace_s=0, drain_s=0)


class Fatal:
    """A program with something in it that kills the process, until it is mended."""

    def __init__(self, kind: str) -> None:
        self.entered = 0
        self.mended = False
        self.carrier = Carrier()
        pause = pausing(self.carrier, timeout_ms=86_400_000)

        @tool(id="t.look", mutating=False)
        async def look(given: Empty) -> Loose:
            return Loose(await self.enter())

        @script(id="t.fatal")
        async def program(ctx: ScriptContext, given: Empty) -> Loose:
            async def fatal() -> Any:
                if kind == "step":
                    return await ctx.step("die", self.enter)
                return (await ctx.call(look, Empty())).root

            done, answer = await ctx.gather(fatal(), ctx.call(pause, Empty()))
            return Loose([done, answer.root])

        self.program = program
        self.tools = (look, pause)

    async def enter(self) -> str:
        """Where the process dies."""
        self.entered += 1
        if not self.mended:
            await asyncio.sleep(3600)
        return "done"

    async def kill(self, deployment: Deployment, run_id: UUID | None = None) -> UUID:
        """One life: a process takes the run up and dies of it."""
        before = self.entered
        async with deployment.process(self.program, *self.tools, limits=QUICK) as process:
            if run_id is None:
                run_id = (await process.start(self.program, wait=False)).id
                await self.carrier.was_handed(1)
                while "call-paused" not in await process.topics(run_id):
                    await asyncio.sleep(0.005)
            while self.entered == before:
                await asyncio.sleep(0.005)
            process.vanish()
        expire_leases(deployment)
        return run_id


async def parked(deployment: Deployment, fatal: Fatal) -> UUID:
    """A run that five processes have died of, as a sixth finds it."""
    run_id = await fatal.kill(deployment)
    for _ in range(4):
        await fatal.kill(deployment, run_id)
    async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
        await process.settled(run_id, "suspended")
    return run_id


def others(view: RunView) -> list[tuple[str, dict[str, str]]]:
    """What it waits for beside answers."""
    assert view.waiting_for is not None
    return [(each.what, dict(each.details or {})) for each in view.waiting_for.other]


@pytest.mark.parametrize("kind", ["step", "read-only"])
class TestCrashLoop:
    async def test_five_dead_workers_park_the_run_and_there_is_no_sixth(
        self, deployment: Deployment, kind: str
    ) -> None:
        """With an event, as something that it waits for; its token is still there."""
        fatal = Fatal(kind)
        run_id = await parked(deployment, fatal)

        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
            await asyncio.sleep(0.1)
            view = await process.runs.get(run_id)

            assert 5 == fatal.entered
            assert [("crash-loop", {"lost": "5"})] == others(view)
            assert view.waiting_for is not None
            assert 1 == len(view.waiting_for.tokens)
            assert "crash-loop" == (await process.topics(run_id))[-1]

    async def test_a_retry_lets_it_go_on_and_says_who_wanted_it(
        self, deployment: Deployment, kind: str
    ) -> None:
        fatal = Fatal(kind)
        run_id = await parked(deployment, fatal)
        fatal.mended = True
        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
            await process.runs.retry(run_id, actor="operator")
            await process.answer(fatal.carrier.urls[-1], b"1")

            assert b'["done",1]' == (await process.settled(run_id)).output
            (retried,) = [
                each.event
                for each in await process.history(run_id)
                if isinstance(each.event, e.CrashLoopRetried)
            ]
            assert "operator" == retried.actor
            with pytest.raises(RunAlreadyTerminalError):
                await process.runs.retry(run_id)


class TestParked:
    @pytest.fixture
    def hot_runs(self) -> int:
        """Nothing is kept in memory by a process that died."""
        return 0

    async def test_an_answer_is_taken_and_no_code_runs(self, deployment: Deployment) -> None:
        """It counts once the run is retried."""
        fatal = Fatal("step")
        run_id = await parked(deployment, fatal)
        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
            assert None is await refusal(process, fatal.carrier.urls[0], b"1")
            view = await process.settled(run_id, "suspended")

            assert 5 == fatal.entered
            assert [("crash-loop", {"lost": "5"})] == others(view)
            fatal.mended = True
            await process.runs.retry(run_id)
            assert b'["done",1]' == (await process.settled(run_id)).output

    async def test_a_retry_of_what_is_not_mended_has_five_lives_again(self, deployment: Deployment) -> None:
        fatal = Fatal("step")
        run_id = await parked(deployment, fatal)
        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK, loops=False) as process:
            await process.runs.retry(run_id)
        for _ in range(5):
            await fatal.kill(deployment, run_id)

        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
            view = await process.settled(run_id, "suspended")

            assert 10 == fatal.entered
            assert [("crash-loop", {"lost": "5"})] == others(view)

    async def test_it_can_be_cancelled(self, deployment: Deployment) -> None:
        fatal = Fatal("step")
        run_id = await parked(deployment, fatal)
        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
            assert "cancelled" == (await process.runs.cancel(run_id)).status
            assert "cancelled" == await refusal(process, fatal.carrier.urls[0], b"1")

    async def test_its_time_to_live_ends_it(self, deployment: Deployment) -> None:
        """Its deadlines fire nothing before that: their failure is the business of its code."""
        fatal = Fatal("step")
        run_id = await parked(deployment, fatal)
        deployment.world.advance(timedelta(days=29))
        async with deployment.process(fatal.program, *fatal.tools, limits=QUICK) as process:
            await asyncio.sleep(0.1)
            assert "suspended" == (await process.runs.get(run_id)).status
            assert "timed-out" == await refusal(process, fatal.carrier.urls[0], b"1")
            deployment.world.advance(timedelta(days=2))

            ended = await process.settled(run_id)

            assert ended.failure is not None
            assert "run-expired" == ended.failure.code
            assert 5 == fatal.entered

    async def test_only_a_parked_run_is_retried(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            view = await process.start(ship)

            with pytest.raises(RunNotParkedError):
                await process.runs.retry(view.id)
            with pytest.raises(RunNotFoundError):
                await process.runs.retry(UUID(int=1))
