"""Scripts over processes that come and go, on both stores."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from abeyance import script
from abeyance.engine.scripting import ScriptContext
from tests.support.carrier import Carrier, Empty, Loose, pausing
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio


class TestScripts:
    async def test_sleep_value_and_step_survive_a_change_of_process(self, deployment: Deployment) -> None:
        """What was recorded is what the program gets, wherever it goes on."""
        steps: list[int] = []

        def count() -> int:
            steps.append(1)
            return len(steps)

        @script(id="t.script")
        async def program(ctx: ScriptContext, given: Empty) -> Loose:
            first = await ctx.uuid()
            counted = await ctx.step("count", count)
            await ctx.sleep(3600)
            return Loose([str(first), counted])

        async with deployment.process(program) as process:
            view = await process.start(program)
            assert view.waiting_for is not None
            assert ["timer"] == [other.what for other in view.waiting_for.other]
        deployment.world.advance(timedelta(seconds=3601))

        async with deployment.process(program) as process:
            ended = await process.settled(view.id)
            assert [1] == steps
            assert ended.output is not None
            assert ended.output.endswith(b",1]")

    @pytest.mark.case("I09")
    async def test_changed_code_parks_the_run_and_fitting_code_goes_on(self, deployment: Deployment) -> None:
        """The run says what was recorded and what was asked for; nothing is lost."""
        carrier = Carrier()
        pause, other = pausing(carrier), pausing(carrier, id="t.other")

        def program(tool_called: Any) -> Any:
            async def body(ctx: ScriptContext, given: Empty) -> Loose:
                answer: Loose = await ctx.call(tool_called, Empty())
                return answer

            return script(id="t.script")(body)

        fitting, changed = program(pause), program(other)
        async with deployment.process(fitting, pause) as process:
            view = await process.start(fitting)
        async with deployment.process(changed, pause, other) as process:
            await process.answer(carrier.urls[0], b"1")
            while "code-mismatch" not in await process.topics(view.id):
                await asyncio.sleep(0.01)
            parked = await process.runs.get(view.id)
            assert parked.waiting_for is not None
            assert ["code-mismatch"] == [each.what for each in parked.waiting_for.other]
        async with deployment.process(fitting, pause) as process:
            deployment.world.advance(timedelta(seconds=61))

            ended = await process.settled(view.id)
            assert b"1" == ended.output
            assert "code-matched" in await process.topics(view.id)
