"""A process is stopped at a named place while something else happens to its run (docs/adr/0003, 0004)."""

import asyncio
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from abeyance import flow, script, step, tool
from abeyance.engine import actor as actors
from abeyance.engine.executor import Limits
from abeyance.engine.scripting import ScriptContext
from abeyance.journal.batch import Lease
from abeyance.journal.store import Claim, ClaimRequest, JournalStore
from tests.support.barriers import Places
from tests.support.carrier import Carrier, Empty, Loose, closed_state, one_step, pausing
from tests.support.engine import Deployment, EngineProcess
from tests.support.faulty_store import FaultyStore

pytestmark = pytest.mark.anyio

ELSEWHERE = Limits(poll_s=0.02, grace_s=0, drain_s=1, execute=False)
HINTS_ONLY = Limits(poll_s=60, grace_s=0, drain_s=1)


class Gate:
    """A tool that stays in its handler until the test opens it."""

    def __init__(self, id: str = "t.slow") -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()
        self.runs = 0

        @tool(id=id)
        async def slow(given: Loose) -> Loose:
            self.runs += 1
            self.entered.set()
            await self.open.wait()
            return Loose("slow")

        self.tool = slow


def noting(seen: list[Any], id: str = "t.note") -> Any:
    @tool(id=id)
    def note(given: Loose) -> Loose:
        seen.append(given.root)
        return given

    return note


def given(results: Any) -> Any:
    return None


class TestForeignAppend:
    async def test_an_answer_between_an_effect_and_its_append_is_decided_on_first(
        self, deployment: Deployment
    ) -> None:
        """The stored order decides who wins the race, not what the process saw first."""
        carrier, gate, places = Carrier(), Gate(), Places()
        pause = pausing(carrier)

        @script(id="t.race")
        async def program(ctx: ScriptContext, value: Empty) -> Loose:
            async def answered() -> Any:
                await ctx.call(pause, Empty())
                return "answered"

            async def called() -> Any:
                await ctx.call(gate.tool, Loose(1))
                return "called"

            winner = await ctx.race(answered(), called())
            return Loose(winner.value)

        async with (
            deployment.process(program, pause, gate.tool, barrier=places) as one,
            deployment.process(program, pause, gate.tool, limits=ELSEWHERE) as two,
        ):
            view = await one.start(program, wait=False)
            await gate.entered.wait()
            while "call-paused" not in await one.topics(view.id):
                await asyncio.sleep(0.005)
            stop = places.stop("append:", "call-completed")
            gate.open.set()
            async with stop:
                await two.answer(carrier.urls[0], b'"first"')

            ended = await one.settled(view.id)

            topics = await one.topics(view.id)
            assert ["wait-token-completed", "call-completed", "race-decided"] == topics[4:7]
            assert b'"answered"' == ended.output
            assert 1 == gate.runs

    @pytest.mark.case("I03")
    async def test_a_claim_between_the_read_and_the_append_of_an_answer_costs_a_second_read(
        self, deployment: Deployment
    ) -> None:
        """The acceptor saw a run that nobody held; it may not overwrite the lease of who claimed it since."""
        carrier, gate, ones, twos = Carrier(), Gate(), Places(), Places()
        pause = pausing(carrier)

        @script(id="t.both")
        async def program(ctx: ScriptContext, value: Empty) -> Loose:
            async def later() -> Any:
                await ctx.sleep(0.3)
                return await ctx.call(gate.tool, Loose(1))

            answer, _ = await ctx.gather(ctx.call(pause, Empty()), later())
            return Loose(answer.root)

        async with (
            deployment.process(program, pause, gate.tool, barrier=ones) as one,
            deployment.process(program, pause, gate.tool, barrier=twos, limits=ELSEWHERE) as two,
        ):
            claimed, read = ones.stop("append:", "timer-fired"), twos.stop("append:wait-token-completed")
            view = await one.start(program)
            assert "suspended" == view.status
            answering = asyncio.create_task(two.answer(carrier.urls[0], b"7"))
            async with read:
                await asyncio.wait_for(claimed.reached.wait(), 10)
            await answering
            claimed.go.set()
            await asyncio.wait_for(gate.entered.wait(), 10)
            gate.open.set()

            ended = await one.settled(view.id)

            assert b"7" == ended.output
            assert 1 == gate.runs
            assert 1 == (await one.topics(view.id)).count("timer-fired")

    async def test_a_busy_holder_learns_of_an_answer_that_another_process_took(
        self, deployment: Deployment
    ) -> None:
        """What follows from the answer begins at once, not when the slow call beside it has ended."""
        carrier, gate, seen = Carrier(), Gate(), list[Any]()
        pause, note = pausing(carrier), noting(seen)
        both = flow(
            "t.both",
            input=Empty,
            steps=[
                step("pickup", pause),
                step("slow", gate.tool, input=given),
                step("after", note, needs=["pickup"], input=lambda results: results["pickup"]),
            ],
        )
        async with (
            deployment.process(both) as one,
            deployment.process(both, limits=ELSEWHERE) as two,
        ):
            view = await one.start(both, wait=False)
            await asyncio.wait_for(gate.entered.wait(), 10)
            while "call-paused" not in await one.topics(view.id):
                await asyncio.sleep(0.005)

            await two.answer(carrier.urls[0], b'"now"')

            for _ in range(300):
                if seen:
                    break
                await asyncio.sleep(0.01)
            assert ["now"] == seen
            assert not gate.open.is_set()
            gate.open.set()
            assert "completed" == (await one.settled(view.id)).status
            assert 1 == gate.runs


class TestWakeUp:
    @pytest.mark.case("B09")
    async def test_a_hint_alone_wakes_a_run_that_is_warm(self, deployment: Deployment) -> None:
        """Another process takes the answer; the one that executes needs no poll to go on."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with (
            deployment.process(ship, limits=HINTS_ONLY) as one,
            deployment.process(ship, limits=ELSEWHERE) as two,
        ):
            view = await one.start(ship)

            await two.answer(carrier.urls[0], b"1")

            assert b"1" == (await one.settled(view.id, within_s=5)).output

    @pytest.mark.case("B09", "K02")
    async def test_a_poll_finds_what_no_hint_told(self, deployment: Deployment) -> None:
        """A lost hint costs one poll, for a run that is warm and for one that isn't."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with (
            deployment.process(ship, limits=Limits(poll_s=0.1, grace_s=0)) as one,
            deployment.process(ship, limits=ELSEWHERE) as two,
        ):
            one.executor.hint = lambda run_id: None  # type: ignore[method-assign]
            view = await one.start(ship)

            await two.answer(carrier.urls[0], b"1")

            assert b"1" == (await one.settled(view.id, within_s=5)).output

    async def test_an_answer_through_a_process_without_the_code_is_executed_by_one_with_it(
        self, deployment: Deployment
    ) -> None:
        """A process takes no run that it can't go on with."""
        carrier = Carrier()
        ship, other = (
            one_step(pausing(carrier)),
            flow("t.other", input=Empty, steps=[step("x", noting([]), input=given)]),
        )
        async with (
            deployment.process(ship) as one,
            deployment.process(other, limits=Limits(poll_s=0.02)) as two,
        ):
            view = await one.start(ship)

            await two.answer(carrier.urls[0], b"1")

            assert b"1" == (await one.settled(view.id, within_s=5)).output


class TestLease:
    async def test_an_answer_while_a_lease_is_given_back_is_taken(self, deployment: Deployment) -> None:
        """The run is neither decided on what was let go, nor left asleep."""
        carrier, places = Carrier(), Places()
        ship = one_step(pausing(carrier))
        faulty = FaultyStore(deployment.store)
        faulty.testing_only_before = places.at
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with apart.process(ship, loops=False) as one:
            view = await one.start(ship)
            stop = places.stop("release")
            lease = one.executor.new_lease()
            await _claim(one, view.id, lease)
            one.executor.go_on(view.id, lease)
            async with stop:
                answering = asyncio.create_task(one.answer(carrier.urls[0], b"1"))
                await asyncio.sleep(0)

            await answering

            assert b"1" == (await one.settled(view.id, within_s=5)).output

    @pytest.mark.case("L06", "L08")
    async def test_a_claim_before_the_reply_of_the_append_that_slept_keeps_its_lease(
        self, deployment: Deployment
    ) -> None:
        """The run slept, and its process got it back from the agenda before it knew that it sleeps."""
        places = Places()
        ship = one_step(pausing(Carrier(), timeout_ms=1))
        async with deployment.process(ship, barrier=places) as one:
            slept = places.stop("stored:", "suspended")
            view = await one.start(ship, wait=False)
            async with slept:
                while (await _lease(one, view.id)) is None:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.05)

            assert "failed" == (await one.settled(view.id, within_s=5)).status

    async def test_a_claim_while_its_process_reads_the_run_keeps_its_lease(
        self, deployment: Deployment
    ) -> None:
        """What was read is older than the claim: it is read again."""
        carrier, places = Carrier(), Places()
        ship = one_step(pausing(carrier))
        faulty = FaultyStore(deployment.store)
        faulty.testing_only_after = places.at
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with deployment.process(ship, loops=False) as starter:
            view = await starter.start(ship)
        async with apart.process(ship, loops=False) as one:
            actor = one.executor.adopt(view.id, None, None)
            lease = one.executor.new_lease()
            read = places.stop("read_run got")
            actor.look_again()
            async with read:
                await _claim(starter, view.id, lease)
                one.executor.go_on(view.id, lease)
            await one.answer(carrier.urls[0], b"1")

            assert b"1" == (await one.settled(view.id, within_s=5)).output

    async def test_a_run_claimed_while_its_process_stops_is_given_back(self, deployment: Deployment) -> None:
        """The claim is in the store, its reply isn't there yet: who comes next needn't wait for the lease."""
        carrier, places = Carrier(), Places()
        ship = one_step(pausing(carrier))
        faulty = FaultyStore(deployment.store)
        faulty.testing_only_after = places.at
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with deployment.process(ship, limits=ELSEWHERE) as acceptor:
            async with apart.process(ship, limits=Limits(poll_s=0.02, drain_s=1)) as one:
                view = await one.start(ship)
                stop = places.stop("claim got")
                await acceptor.answer(carrier.urls[0], b"1")
                await asyncio.wait_for(stop.reached.wait(), 10)
                stopping = asyncio.create_task(one.executor.stop())
                await asyncio.sleep(0.01)
                stop.go.set()
                await stopping
            async with deployment.process(ship) as two:
                assert b"1" == (await two.settled(view.id, within_s=5)).output

    async def test_a_drain_begins_nothing_new(self, deployment: Deployment) -> None:
        """The call that ends in time is recorded; the next one begins in the process that goes on."""
        gate, seen = Gate(), list[Any]()
        note = noting(seen)
        two_steps = flow(
            "t.two",
            input=Empty,
            steps=[
                step("slow", gate.tool, input=given),
                step("after", note, needs=["slow"], input=lambda results: results["slow"]),
            ],
        )
        async with deployment.process(two_steps, limits=Limits(poll_s=0.02, drain_s=2)) as one:
            view = await one.start(two_steps, wait=False)
            await asyncio.wait_for(gate.entered.wait(), 10)
            stopping = asyncio.create_task(one.executor.stop())
            await asyncio.sleep(0.05)
            gate.open.set()
            await stopping
            assert ["started", "call-started", "call-completed"] == await one.topics(view.id)
            assert [] == seen

        async with deployment.process(two_steps) as two:
            assert "completed" == (await two.settled(view.id)).status
            assert ["slow"] == seen
            assert "rerun" not in await two.topics(view.id)

    async def test_a_process_that_always_loses_gives_up(self, deployment: Deployment) -> None:
        """Rows that disagree with the events would make every append lose: no process spins on that."""
        faulty = FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        gate = Gate()
        ship = flow("t.flow", input=Empty, steps=[step("slow", gate.tool, input=given)])
        async with apart.process(ship) as one:
            view = await one.start(ship, wait=False)
            await asyncio.wait_for(gate.entered.wait(), 10)
            before = faulty.calls.count("append")
            faulty.loses = True
            gate.open.set()
            while one.executor.find(view.id) is not None:
                await asyncio.sleep(0.01)

            assert 20 == faulty.calls.count("append") - before


class TestWarmRuns:
    async def test_the_same_answer_after_the_deadline_is_accepted_by_a_process_that_missed_it(
        self, deployment: Deployment
    ) -> None:
        """What a process has warm is old: the rows say what became of the wait."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            view = await one.start(ship)
            await two.answer(carrier.urls[0], b"1")
            await two.settled(view.id)
            deployment.world.advance(timedelta(seconds=61))

            await one.answer(carrier.urls[0], b"1")

            assert "completed" == await closed_state(one, carrier.urls[0], b"2")

    async def test_a_run_that_moved_on_elsewhere_is_answered_at_its_next_wait(
        self, deployment: Deployment
    ) -> None:
        """One process has the run warm at its first wait; the second wait was opened by another."""
        carrier = Carrier()
        first, second = pausing(carrier, id="t.first"), pausing(carrier, id="t.second")
        steps = [
            step("first", first),
            step("second", second, needs=["first"], input=lambda results: {}),
        ]
        ship = flow("t.flow", input=Empty, steps=steps)
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            view = await one.start(ship)
            await two.answer(carrier.urls[0], b"1")
            await carrier.was_handed(2)
            await two.settled(view.id, "suspended")

            await one.answer(carrier.urls[1], b"2")

            assert b'"completed"' != (await one.settled(view.id)).output
            topics = await one.topics(view.id)
            assert 2 == topics.count("call-started")
            assert 2 == topics.count("wait-token-completed")


class TestDeadlineWhileExecuting:
    async def test_a_wait_ends_in_time_while_another_branch_runs_for_hours(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The holder of the lease fires the run's deadlines, however far off they were."""
        monkeypatch.setattr(actors, "_LONGEST_TIMER_S", 0.05)
        carrier, gate = Carrier(), Gate()
        both = flow(
            "t.both",
            input=Empty,
            steps=[
                step("pickup", pausing(carrier, timeout_ms=7_200_000)),
                step("slow", gate.tool, input=given),
            ],
        )
        async with deployment.process(both, loops=False) as one:
            view = await one.start(both, wait=False)
            await asyncio.wait_for(gate.entered.wait(), 10)
            while "call-paused" not in await one.topics(view.id):
                await asyncio.sleep(0.005)

            deployment.world.advance(timedelta(hours=2, seconds=1))

            for _ in range(300):
                if "wait-token-timed-out" in await one.topics(view.id):
                    break
                await asyncio.sleep(0.01)
            assert "wait-token-timed-out" in await one.topics(view.id)
            gate.open.set()
            assert "failed" == (await one.settled(view.id)).status


class TestStepFunction:
    @pytest.mark.parametrize("kind", ["plain", "async"])
    async def test_an_error_that_no_future_takes_fails_the_step(
        self, deployment: Deployment, kind: str
    ) -> None:
        """No error of a function leaves its run executing for ever."""

        def plain() -> None:
            raise StopIteration

        async def asynchronous() -> None:
            raise asyncio.CancelledError

        @script(id="t.script")
        async def program(ctx: ScriptContext, value: Empty) -> Loose:
            await ctx.step("breaks", plain if kind == "plain" else asynchronous)
            return Loose(1)

        async with deployment.process(program) as one:
            ended = await one.settled((await one.start(program, wait=False)).id, within_s=3)

            assert ended.failure is not None
            assert "handler-error" == ended.failure.code


async def _claim(process: EngineProcess, run_id: UUID, lease: Lease) -> None:
    """Give a waiting run to somebody, as if its deadline had come."""
    stored = await process.store.read_run(run_id)
    assert stored is not None
    assert stored.control.due is not None
    request = ClaimRequest(
        now=stored.control.due,
        lease_until=stored.control.due + 60_000_000,
        room=1,
        lease_ids=[lease.id],
        definitions=[stored.control.definition],
    )
    assert [Claim(run_id, lease.id)] == await process.store.claim(request)


async def _lease(process: EngineProcess, run_id: UUID) -> UUID | None:
    stored = await process.store.read_run(run_id)
    assert stored is not None
    return stored.control.lease_id
