"""The store fails at every call that a run makes, once before and once after doing what it was asked.

Whatever was acknowledged is there, nothing is doubled, and every run ends by itself once the store works.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest

from abeyance import PauseAnswer, ToolContext, script, tool
from abeyance.engine import actor as actors
from abeyance.engine.executor import Limits
from abeyance.engine.scripting import ScriptContext
from abeyance.errors import StoreUnavailableError
from abeyance.journal.store import JournalStore, KeyStore, StoredRun
from tests.support.carrier import Carrier, Empty, Loose, closed_state, one_step, pausing
from tests.support.engine import SIGNER, Deployment, EngineProcess, definitions_of
from tests.support.faulty_store import KEYS, READS, Fault, FaultyStore, Moment
from tests.support.standing import assert_all_stand

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PUBLIC_KEYS = {SIGNER.kid: SIGNER.public_key}
ON_THE_WAY = READS | {"append", "release"}
Done = TypeVar("Done")


class Outside:
    """The world around the runs: links that were handed out, and how often each handler ran."""

    def __init__(self) -> None:
        self.links: dict[str, list[str]] = defaultdict(list)
        self.ran: dict[str, Counter[str]] = defaultdict(Counter)
        self.steps: Counter[str] = Counter()

        @tool(id="t.pay")
        async def pay(given: Loose, ctx: ToolContext) -> Loose:
            self.ran[ctx.run_id][ctx.idempotency_key] += 1
            return given

        @tool(id="t.ask", pauses=True)
        async def ask(given: Loose, ctx: ToolContext) -> Loose | PauseAnswer:
            self.ran[ctx.run_id][ctx.idempotency_key] += 1
            self.links[ctx.run_id].append(ctx.wait_token.url)
            return ctx.pause(timeout_ms=3_600_000)

        self.pay, self.ask = pay, ask

    def job(self) -> Any:
        """A step, a call that changes something, a pause beside a timer, a race, and another call."""

        @script(id="t.job")
        async def job(ctx: ScriptContext, given: Empty) -> Loose:
            name = str(await ctx.uuid())
            await ctx.step("count", lambda: self.steps.update([name]))
            await ctx.call(self.pay, Loose("first"))
            answer, _ = await ctx.gather(ctx.call(self.ask, Loose("go on?")), ctx.sleep(0.01))
            await ctx.race(ctx.call(self.ask, Loose("too late")), ctx.sleep(0.01))
            paid = await ctx.call(self.pay, answer)
            return Loose([name, paid.root])

        return job


async def insist(attempt: Callable[[], Awaitable[Done]]) -> Done:
    """Try again until the store works, as a client does on 503."""
    while True:
        try:
            return await attempt()
        except StoreUnavailableError:
            await asyncio.sleep(0.01)


async def ended(deployment: Deployment, watched: EngineProcess, within_s: float) -> set[UUID]:
    """All runs of the store, once none of them is under way."""
    end = asyncio.get_running_loop().time() + within_s
    while True:
        async with deployment.store.snapshot() as snapshot:
            runs = await snapshot.controls(await snapshot.streams(None, 1000))
        open_runs = [run for run in runs if run.status not in ("completed", "failed", "cancelled")]
        if not open_runs:
            return {run.run_id for run in runs}
        topics = [(run.status, await watched.topics(run.run_id)) for run in open_runs]
        assert asyncio.get_running_loop().time() < end, topics
        await asyncio.sleep(0.02)


class TestOneFault:
    @pytest.fixture(autouse=True)
    def _quick_retries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(actors, "_FIRST_RETRY_S", 0.01)

    @pytest.mark.case("A05", "A01", "L07", "J01")
    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_a_run_survives_a_fault_at_each_of_its_calls(
        self, deployment: Deployment, moment: Moment
    ) -> None:
        """Nothing is lost or doubled, whichever call fails; no lease has to run out for it."""
        outside = Outside()
        job, faulty = outside.job(), FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        acknowledged: dict[UUID, bytes] = {}
        async with (
            apart.process(job, outside.pay, outside.ask) as process,
            deployment.process(job, outside.pay, outside.ask, loops=False) as watched,
        ):
            happened, number = True, 0
            while happened:
                number += 1
                fault = faulty.fault = Fault(number, moment, ON_THE_WAY)
                view = await insist(lambda: process.start(job, wait=False))
                await _answer_all(outside, process, acknowledged, view.id)
                # A start whose reply was lost has begun a run too; its link may come after the other's.
                rest = asyncio.create_task(_answer_all(outside, process, acknowledged, None))
                found = await ended(deployment, watched, within_s=10)
                rest.cancel()
                happened = fault.happened
                faulty.fault = None
                assert view.id in found
            assert number > 9
            for run_id, value in acknowledged.items():
                await process.answer(outside.links[str(run_id)][0], value)
                assert "completed" == await closed_state(process, outside.links[str(run_id)][0], b"0")

        stored = await _all_stand(deployment, outside, job)
        for run_id, value in acknowledged.items():
            assert value in (await _output(deployment, stored[run_id]))
        assert all(times <= 2 for times in outside.steps.values())

    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_a_claim_that_fails_is_made_again(self, deployment: Deployment, moment: Moment) -> None:
        """A run that another process woke is taken up although the claim failed, or its reply was lost."""
        carrier = Carrier()
        ship, faulty = one_step(pausing(carrier)), FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with (
            apart.process(ship, limits=Limits(lease_s=1, poll_s=0.02, grace_s=0)) as process,
            deployment.process(ship, limits=Limits(execute=False)) as acceptor,
        ):
            view = await process.start(ship)
            faulty.fault = Fault(1, moment, {"claim"})

            await acceptor.answer(carrier.urls[0], b"1")

            assert b"1" == (await process.settled(view.id)).output

    async def test_a_hint_that_fails_refuses_nothing(self, deployment: Deployment) -> None:
        """What is stored was taken; the poll of whoever executes finds it."""
        carrier = Carrier()
        ship, faulty = one_step(pausing(carrier)), FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with (
            deployment.process(ship) as worker,
            apart.process(ship, limits=Limits(execute=False)) as front,
        ):
            faulty.fault = Fault(1, "before", {"hint"}, more=2)
            started = await front.start(ship, wait=False)
            await worker.settled(started.id, "suspended")
            await front.answer(carrier.urls[0], b"1")

            assert b"1" == (await worker.settled(started.id)).output
            assert 2 == faulty.calls.count("hint")

    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_a_key_store_that_fails_refuses_a_start_and_then_doesn_t(
        self, deployment: Deployment, moment: Moment
    ) -> None:
        """Nothing is started without a key; the next start gets one."""
        carrier = Carrier()
        ship, faulty = one_step(pausing(carrier)), FaultyStore(deployment.keys)
        apart = Deployment(deployment.store, cast(KeyStore, faulty), deployment.world, deployment.hot_runs)
        async with apart.process(ship) as process:
            faulty.fault = Fault(1, moment, KEYS)
            with pytest.raises(StoreUnavailableError):
                await process.start(ship)

            view = await process.start(ship)
        faulty.fault = Fault(1, moment, KEYS)
        async with apart.process(ship) as process:
            value = await insist(lambda: _answered(process, carrier.urls[0]))

            assert value == (await process.settled(view.id)).output

    @pytest.mark.case("A05")
    @pytest.mark.parametrize("sent", [1, 2], ids=["once", "again"])
    async def test_an_answer_whose_reply_was_lost_wakes_its_run(
        self, deployment: Deployment, sent: int
    ) -> None:
        """By a process that never had the run, and whether or not the sender comes again."""
        carrier = Carrier()
        ship, faulty = one_step(pausing(carrier)), FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with deployment.process(ship, loops=False) as starter, apart.process(ship) as process:
            view = await starter.start(ship)
            faulty.fault = Fault(1, "after", {"append"})
            with pytest.raises(StoreUnavailableError):
                await process.answer(carrier.urls[0], b"1")
            if sent == 2:
                await process.answer(carrier.urls[0], b"1")

            assert b"1" == (await process.settled(view.id)).output
            assert 1 == (await process.topics(view.id)).count("wait-token-completed")


async def _answered(process: EngineProcess, url: str) -> bytes:
    await process.answer(url, b"1")
    return b"1"


async def _answer_all(
    outside: Outside, process: EngineProcess, acknowledged: dict[UUID, bytes], started: UUID | None
) -> None:
    """Answer the first link of each run that has one and wasn't answered, until `started` is, or for ever."""
    while started not in acknowledged:
        for run, links in list(outside.links.items()):
            if UUID(run) not in acknowledged:
                value = f'"{run}"'.encode()
                await insist(lambda url=links[0], value=value: process.answer(url, value))  # type: ignore[misc]
                acknowledged[UUID(run)] = value
        await asyncio.sleep(0.002)


async def _all_stand(deployment: Deployment, outside: Outside, job: Any) -> dict[UUID, StoredRun]:
    return await assert_all_stand(
        deployment.store,
        deployment.keys,
        deployment.desk(),
        definitions_of(job, outside.pay, outside.ask),
        PUBLIC_KEYS,
        outside.ran,
    )


async def _output(deployment: Deployment, stored: StoredRun) -> bytes:
    async with deployment.process(loops=False) as reader:
        output = (await reader.runs.get(stored.control.run_id)).output
    assert output is not None
    return output


class TestStoreIsGone:
    @pytest.mark.case("J01", "K05")
    async def test_an_answer_is_refused_and_taken_later_with_the_same_body(
        self, deployment: Deployment
    ) -> None:
        """503 means that nothing was taken; the process needs no restart."""
        carrier = Carrier()
        ship, faulty = one_step(pausing(carrier)), FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with apart.process(ship) as process:
            view = await process.start(ship)
            faulty.gone = True
            for _ in range(3):
                with pytest.raises(StoreUnavailableError):
                    await process.answer(carrier.urls[0], b"1")
            faulty.gone = False

            await process.answer(carrier.urls[0], b"1")

            assert b"1" == (await process.settled(view.id)).output
            assert 1 == (await process.topics(view.id)).count("wait-token-completed")

    async def test_what_a_handler_did_meanwhile_is_recorded_when_the_store_is_back(
        self, deployment: Deployment
    ) -> None:
        """The result waits in the process that has it; the handler isn't run again."""
        inside, go, runs = asyncio.Event(), asyncio.Event(), list[int]()

        @tool(id="t.slow")
        async def slow(given: Empty) -> Loose:
            runs.append(1)
            inside.set()
            await go.wait()
            return Loose("done")

        ship, faulty = one_step(slow), FaultyStore(deployment.store)
        apart = Deployment(cast(JournalStore, faulty), deployment.keys, deployment.world, deployment.hot_runs)
        async with apart.process(ship) as process:
            view = await process.start(ship, wait=False)
            await inside.wait()
            faulty.gone = True
            go.set()
            await asyncio.sleep(0.2)
            faulty.gone = False

            assert b'"done"' == (await process.settled(view.id)).output
            assert [1] == runs
            assert ["started", "call-started", "call-completed", "completed"] == await process.topics(view.id)
