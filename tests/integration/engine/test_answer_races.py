"""Two writers stand before their append to one run and are let go at the same moment; a thousand times.

Nothing here depends on how long anything takes: both have decided by then, on the same version of the run.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from abeyance import script, tool
from abeyance.engine import decisions
from abeyance.engine.executor import Limits
from abeyance.engine.links import link_digest
from abeyance.engine.scripting import ScriptContext
from abeyance.errors import CallFailedError, RunAlreadyTerminalError
from abeyance.journal.store import JournalStore
from tests.support.barriers import Places
from tests.support.carrier import Carrier, Empty, Loose, one_step, pausing, refusal
from tests.support.engine import Deployment, EngineProcess
from tests.support.faulty_store import FaultyStore

pytestmark = pytest.mark.anyio

ELSEWHERE = Limits(poll_s=0.02, grace_s=0, drain_s=1, execute=False)
MANY = Limits(poll_s=60, grace_s=0, drain_s=1)


@pytest.fixture
def hot_runs() -> int:
    """Nobody has anything at hand: every decision is made on what is stored."""
    return 0


class Start:
    """A starting line a run: whoever comes to one of `places` first waits for the other."""

    def __init__(self, seed: int, *topics: str) -> None:
        self._random = Random(seed)
        self._topics = topics
        self._lines: dict[UUID, asyncio.Barrier] = {}
        self._passed: set[tuple[UUID, str]] = set()
        self.arrived: Counter[str] = Counter()

    async def __call__(self, place: str, run_id: UUID) -> None:
        """Pass, or stand at the line. A second try of the same passes."""
        topic = next((each for each in self._topics if place.startswith("append:") and each in place), None)
        if topic is None or (run_id, topic) in self._passed:
            return
        self._passed.add((run_id, topic))
        self.arrived[topic] += 1
        line = self._lines.setdefault(run_id, asyncio.Barrier(2))
        turns = self._random.randrange(16)
        await asyncio.wait_for(line.wait(), 20)
        for _ in range(turns):  # who stood there first isn't always who goes first
            await asyncio.sleep(0)


@pytest.mark.slow
class TestAnswerAgainstTimeout:
    @pytest.mark.case("A09", "L08")
    async def test_reply_and_fate_agree_in_a_thousand_rounds(self, deployment: Deployment, seed: int) -> None:
        """Accepted: the answer is the result. Refused as timed-out: the call failed. Never both events.

        One process holds the run, since another call of it goes on, and has its deadline pass; the other
        takes the answer.
        """
        outcomes: Counter[str | None] = Counter()
        for batch in range(10):
            start = Start(seed + batch, "wait-token-completed", "wait-token-timed-out")
            outcomes += await self._race(deployment, start, 100)

        assert 1_000 == outcomes.total()
        assert {None, "timed-out"} == set(outcomes), outcomes

    async def _race(self, deployment: Deployment, start: Start, count: int) -> Counter[str | None]:
        carrier, gate = Carrier(), asyncio.Event()
        pause = pausing(carrier)

        @tool(id="t.slow")
        async def slow(given: Empty) -> Loose:
            await gate.wait()
            return Loose(None)

        @script(id="t.beside")
        async def program(ctx: ScriptContext, given: Empty) -> Loose:
            calls = (ctx.call(pause, Empty()), ctx.call(slow, Empty()))
            answer, _ = await ctx.gather(*calls, return_exceptions=True)
            return Loose(answer.failure_code if isinstance(answer, CallFailedError) else answer.root)

        async with (
            deployment.process(program, pause, slow, limits=ELSEWHERE, barrier=start) as answering,
            deployment.process(program, pause, slow, barrier=start, limits=MANY) as timing,
        ):
            workshop = timing.executor.workshop
            timing.executor.workshop = replace(workshop, calls=asyncio.Semaphore(2 * count))
            runs = [(await timing.start(program, wait=False)).id for _ in range(count)]
            for run_id in runs:
                while "call-paused" not in await timing.topics(run_id):
                    await asyncio.sleep(0.001)
            told = asyncio.gather(*(refusal(answering, link, b"1") for link in carrier.urls))
            while start.arrived["wait-token-completed"] < count:
                await asyncio.sleep(0.001)
            deployment.world.advance(timedelta(seconds=61))
            for run_id in runs:
                actor = timing.executor.find(run_id)
                assert actor is not None
                actor.post(decisions.fire_deadlines)
            refused = await told
            gate.set()
            of_run = {
                await self._run_of(timing, url): state
                for url, state in zip(carrier.urls, refused, strict=True)
            }
            for run_id in runs:
                await self._agrees(timing, run_id, of_run[run_id])
        return Counter(refused)

    async def _run_of(self, process: EngineProcess, url: str) -> UUID:
        stored = await process.store.find_link(link_digest(url.rsplit("/", 2)[1]))
        assert stored is not None
        return stored.wait.run_id

    async def _agrees(self, process: EngineProcess, run_id: UUID, refused: str | None) -> None:
        ended, topics = await process.settled(run_id), await process.topics(run_id)
        assert "completed" == ended.status
        if refused is None:
            assert b"1" == ended.output
            assert "wait-token-timed-out" not in topics
        else:
            assert b'"wait-token-timed-out"' == ended.output
            assert "wait-token-completed" not in topics


@pytest.mark.slow
class TestAnswerAgainstCancel:
    @pytest.mark.case("N04")
    async def test_reply_and_fate_agree(self, deployment: Deployment, seed: int) -> None:
        """An accepted answer stands before the end, whoever ends the run; a refused one is nowhere."""
        start = Start(seed, "wait-token-completed", "cancelled")
        carrier, count = Carrier(), 200
        ship = one_step(pausing(carrier))
        async with (
            deployment.process(ship, loops=False) as starter,
            deployment.process(ship, limits=ELSEWHERE, barrier=start) as answering,
            deployment.process(ship, limits=ELSEWHERE, barrier=start) as cancelling,
            deployment.process(ship) as executing,
        ):
            runs = [(await starter.start(ship)).id for _ in range(count)]

            async def cancel(run_id: UUID) -> bool:
                try:
                    await cancelling.runs.cancel(run_id)
                except RunAlreadyTerminalError:
                    return False
                return True

            both = [
                (refusal(answering, link, b"1"), cancel(run))
                for link, run in zip(carrier.urls, runs, strict=True)
            ]
            told = await asyncio.gather(*(asyncio.gather(*pair) for pair in both))

            for run_id, (refused, cancelled) in zip(runs, told, strict=True):
                ended, topics = await executing.settled(run_id), await executing.topics(run_id)
                assert refused in (None, "cancelled")
                assert (refused is None) == ("wait-token-completed" in topics)
                assert cancelled == (ended.status == "cancelled") == (topics[-1] == "cancelled")
            assert {None, "cancelled"} == {refused for refused, _ in told}


class TestManyAnswersToOneRun:
    async def test_in_a_process_that_does_not_execute_each_costs_one_append(
        self, deployment: Deployment
    ) -> None:
        """They wait for each other instead of losing to each other."""
        carrier, count = Carrier(), 40
        program, pause = gathering(carrier, count)
        faulty = FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with (
            deployment.process(program, pause, loops=False) as starter,
            apart.process(program, pause, limits=ELSEWHERE) as front,
        ):
            view = await starter.start(program)
            told = await asyncio.gather(*(refusal(front, link, b"1") for link in carrier.urls))

            assert {None} == set(told)
            assert count == faulty.calls.count("append")
            assert count == (await starter.topics(view.id)).count("wait-token-completed")

    async def test_three_processes_and_an_executor_take_each_of_them_once(
        self, deployment: Deployment
    ) -> None:
        """Whoever loses reads and decides again; nobody is told to come back later."""
        carrier, count = Carrier(), 60
        program, pause = gathering(carrier, count)
        async with (
            deployment.process(program, pause) as one,
            deployment.process(program, pause, limits=ELSEWHERE) as two,
            deployment.process(program, pause, limits=ELSEWHERE) as three,
        ):
            view = await one.start(program)
            sides = (one, two, three)
            told = await asyncio.gather(
                *(refusal(sides[place % 3], link, b"1") for place, link in enumerate(carrier.urls * 2))
            )

            assert {None} == set(told)
            assert "completed" == (await one.settled(view.id)).status
            assert count == (await one.topics(view.id)).count("wait-token-completed")


def gathering(carrier: Carrier, count: int) -> tuple[Any, Any]:
    """A script that waits for so many answers at once."""
    pause = pausing(carrier)

    @script(id="t.many")
    async def program(ctx: ScriptContext, given: Empty) -> Loose:
        answers = await ctx.gather(*(ctx.call(pause, Empty()) for _ in range(count)))
        return Loose(len(answers))

    return program, pause


class TestAnswerAgainstRelease:
    @pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
    async def test_no_wake_up_is_lost_when_a_lease_is_given_back_with_the_last_event(
        self, deployment: Deployment, early: bool
    ) -> None:
        """`suspended` and the release are one append: an answer comes before it, and then it loses, or after
        it, and then the run is due."""
        carrier, places = Carrier(), Places()
        ship = one_step(pausing(carrier))
        async with (
            deployment.process(ship, barrier=places) as one,
            deployment.process(ship, limits=ELSEWHERE) as two,
        ):
            stop = places.stop("append:" if early else "stored:", "suspended")
            view = await one.start(ship, wait=False)
            async with stop:
                assert None is await refusal(two, carrier.urls[0], b"1")

            assert b"1" == (await one.settled(view.id, within_s=5)).output
            assert 1 == len(carrier.urls)
            held = "wait-token-answered" in await one.topics(view.id)
            assert early == held
