"""Runs that were parked for other code, and workspaces that would take all of a process's room."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from abeyance import flow, step, tool
from abeyance.engine.executor import Limits
from tests.contract.tenants import put_workspace
from tests.support.carrier import Carrier, Empty, Loose, one_step, pausing
from tests.support.engine import Deployment

pytestmark = pytest.mark.anyio


def other_code() -> Any:
    """The flow with another first step."""

    @tool(id="t.other")
    def other(given: Empty) -> Loose:
        return Loose(1)

    return flow("t.flow", input=Empty, steps=[step("pickup", other)])


class TestParkedRun:
    @pytest.mark.case("I09")
    async def test_a_start_with_the_right_code_looks_at_it_at_once(self, deployment: Deployment) -> None:
        """Not after the minute in which a parked run is left alone."""
        carrier = Carrier()
        ship, wrong = one_step(pausing(carrier)), other_code()
        async with deployment.process(ship) as process:
            view = await process.start(ship)
        async with deployment.process(wrong) as process:
            await process.answer(carrier.urls[0], b"1")
            while "code-mismatch" not in await process.topics(view.id):
                await asyncio.sleep(0.005)

        async with deployment.process(ship) as process:
            ended = await process.settled(view.id, within_s=5)

            assert b"1" == ended.output
            assert ["code-mismatch", "code-matched", "completed"] == (await process.topics(view.id))[-3:]

    async def test_a_start_with_code_that_fits_no_better_adds_nothing(self, deployment: Deployment) -> None:
        """The event is appended once a pair of recorded and requested."""
        carrier = Carrier()
        ship, wrong = one_step(pausing(carrier)), other_code()
        async with deployment.process(ship) as process:
            view = await process.start(ship)
        async with deployment.process(wrong) as process:
            await process.answer(carrier.urls[0], b"1")
            while "code-mismatch" not in await process.topics(view.id):
                await asyncio.sleep(0.005)
            topics = await process.topics(view.id)
        for _ in range(3):
            async with deployment.process(wrong) as process:
                await process.settled(view.id, "suspended")
                await asyncio.sleep(0.05)

        async with deployment.process(wrong) as process:
            assert topics == await process.topics(view.id)
            waiting = (await process.runs.get(view.id)).waiting_for
            assert waiting is not None
            assert ["code-mismatch"] == [each.what for each in waiting.other]

    async def test_a_retry_looks_at_it_at_once(self, deployment: Deployment) -> None:
        """For when nothing was started since its code came."""
        carrier = Carrier()
        ship, wrong = one_step(pausing(carrier)), other_code()
        async with deployment.process(ship) as process:
            view = await process.start(ship)
        async with deployment.process(ship) as fits:
            agenda = fits.executor._agenda
            agenda._offer_parked = nothing  # type: ignore[method-assign]
            await agenda.stop()
            async with deployment.process(wrong) as process:
                await process.answer(carrier.urls[0], b"1")
                while "code-mismatch" not in await process.topics(view.id):
                    await asyncio.sleep(0.005)
            await agenda.start()
            await asyncio.sleep(0.1)
            assert "suspended" == (await fits.runs.get(view.id)).status

            await retry_through_another(deployment, ship, view.id)

            assert "completed" == (await fits.settled(view.id, within_s=5)).status


async def nothing() -> None:
    """No offer."""


async def retry_through_another(deployment: Deployment, ship: Any, run_id: UUID) -> None:
    """Ask for a retry through a process that executes nothing."""
    async with deployment.process(ship, limits=Limits(execute=False, grace_s=0)) as front:
        await front.runs.retry(run_id)


class TestGreedyWorkspace:
    @pytest.mark.parametrize("others", [True, False], ids=["with-others", "alone"])
    async def test_gets_the_last_places_only_where_nobody_else_needs_them(
        self, deployment: Deployment, others: bool
    ) -> None:
        """All ten places are one workspace's. The one that gets free is for the other's run, although it is
        neither the newest nor the oldest; without another workspace it is for one of those."""
        entered, places = list[str](), asyncio.Semaphore(0)

        @tool(id="t.slow")
        async def slow(given: Loose) -> Loose:
            entered.append(given.root)
            await places.acquire()
            return given

        ship = flow("t.flow", input=Loose, steps=[step("slow", slow)])
        limits = Limits(poll_s=0.02, grace_s=0, drain_s=1, max_runs=10)
        async with deployment.process(ship, limits=Limits(execute=False)) as starter:
            if others:
                await put_workspace(deployment.store, "quiet", "active")

            async def start(count: int, name: str = "busy", workspace: str = "default") -> list[UUID]:
                given = f'"{name}"'.encode()
                runs = [
                    await starter.start(ship, given, wait=False, workspace=workspace) for _ in range(count)
                ]
                return [view.id for view in runs]

            runs = await start(10)
            async with deployment.process(ship, limits=limits) as process:
                process.executor.hint = lambda run_id: None  # type: ignore[method-assign]
                while len(entered) < 10:
                    await asyncio.sleep(0.005)
                runs += await start(5)
                runs += await start(1, "between", "quiet" if others else "default")
                runs += await start(5)
                places.release()
                while len(entered) < 11:
                    await asyncio.sleep(0.005)
                assert others == (entered[10] == "between")
                for _ in runs:
                    places.release()
                for run_id in runs:
                    assert "completed" == (await process.settled(run_id, within_s=30)).status
            assert 21 == len(entered)
