"""What becomes of waits, on both stores: early answers, deadlines, races, lost workers, retries, ends."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, RootModel
from support.engine import Deployment, EngineProcess

from abeyance import PauseAnswer, Retry, ToolContext, flow, script, step, tool
from abeyance.engine.executor import Limits
from abeyance.engine.scripting import ScriptContext
from abeyance.errors import (
    AnswerInvalidError,
    RunAlreadyTerminalError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
)

pytestmark = pytest.mark.anyio


class Empty(BaseModel):
    pass


class Loose(RootModel[Any]):
    pass


class Strict(BaseModel):
    pickupId: str


class Carrier:
    """The outside world: what it was handed, and how often."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.keys: list[str] = []

    def hand(self, ctx: ToolContext) -> None:
        self.urls.append(ctx.wait_token.url)
        self.keys.append(ctx.idempotency_key)


def pausing(
    carrier: Carrier, *, timeout_ms: int = 60_000, output: type[BaseModel] = Loose, id: str = "t.pause"
) -> Any:
    """A tool that hands its link to `carrier` and pauses."""

    def handler(given: Empty, ctx: ToolContext) -> Any:
        carrier.hand(ctx)
        return ctx.pause(timeout_ms=timeout_ms, name="the carrier")

    handler.__annotations__["return"] = output | PauseAnswer
    return tool(id=id, pauses=True)(handler)


def one_step(pause: Any, *, retry: Retry | None = None) -> Any:
    return flow("t.flow", input=Empty, steps=[step("pickup", pause, **({"retry": retry} if retry else {}))])


async def refusal(process: EngineProcess, url: str, value: bytes) -> str | None:
    """The state that the sender is told; `None` if the answer was taken."""
    try:
        await process.answer(url, value)
    except WaitTokenClosedError as error:
        return error.state
    return None


async def closed_state(process: EngineProcess, url: str, value: bytes = b'"late"') -> str:
    with pytest.raises(WaitTokenClosedError) as caught:
        await process.answer(url, value)
    return caught.value.state


class TestEarlyAnswer:
    @pytest.mark.case("A03", "A01")
    async def test_an_answer_from_inside_the_handler_is_held_and_taken(self, deployment: Deployment) -> None:
        """The carrier answers before the handler has returned; the run takes it and never suspends."""
        reached: list[EngineProcess] = []

        @tool(id="t.pause", pauses=True)
        async def eager(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            await reached[0].answer(ctx.wait_token.url, b'{"n":1}')
            return ctx.pause(timeout_ms=1)

        ship = one_step(eager)
        async with deployment.process(ship) as process:
            reached.append(process)

            ended = await process.start(ship)

            assert ("completed", b'{"n":1}') == (ended.status, ended.output)
            topics = "started call-started wait-token-answered call-paused wait-token-completed completed"
            assert topics.split() == await process.topics(ended.id)

    @pytest.mark.case("A04")
    async def test_an_answer_is_dropped_when_the_tool_answers_at_once(self, deployment: Deployment) -> None:
        """The tool's own value is the result; the link says unused, to the same answer too."""
        reached: list[EngineProcess] = []
        urls: list[str] = []

        @tool(id="t.pause", pauses=True)
        async def eager(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            urls.append(ctx.wait_token.url)
            await reached[0].answer(ctx.wait_token.url, b'"theirs"')
            return Loose("ours")

        ship = one_step(eager)
        async with deployment.process(ship) as process:
            reached.append(process)

            ended = await process.start(ship)

            assert b'"ours"' == ended.output
            assert "wait-token-discarded" in await process.topics(ended.id)
            assert "unused" == await closed_state(process, urls[0], b'"theirs"')
            assert "unused" == await closed_state(process, urls[0], b'"other"')

    async def test_a_second_different_early_answer_is_told_that_one_is_held(
        self, deployment: Deployment
    ) -> None:
        """The first one counts; the same again is accepted again; another is refused as answered."""
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            await gate.wait()
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            await process.answer(carrier.urls[0], b"1")

            await process.answer(carrier.urls[0], b"1")
            assert "answered" == await closed_state(process, carrier.urls[0], b"2")

            gate.set()
            assert b"1" == (await process.settled(view.id)).output


class TestSameAnswer:
    @pytest.mark.case("A07", "A05")
    @pytest.mark.parametrize("same", [True, False], ids=["here", "elsewhere"])
    async def test_the_same_answer_is_accepted_again_and_another_isn_t(
        self, deployment: Deployment, same: bool
    ) -> None:
        """Also after the run has ended, and by a process that never had the run."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process, deployment.process(ship, loops=False) as other:
            view = await process.start(ship)
            await process.answer(carrier.urls[0], b'{"ok":true}')
            await process.settled(view.id)
            asked = process if same else other

            await asked.answer(carrier.urls[0], b'{"ok":true}')
            for another in (b'{"ok":1}', b'{"ok":false}', b"null"):
                assert "completed" == await closed_state(asked, carrier.urls[0], another)

    @pytest.mark.case("A20")
    @pytest.mark.parametrize("value", [b"null", b"false", b"0", b'""', b"[]", b"{}", b"-0", b"1e2", b"1.0"])
    async def test_falsy_answers_and_number_texts_arrive_unchanged(
        self, deployment: Deployment, value: bytes
    ) -> None:
        """What was posted is stored; the program reads it and its output is made of it."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)

            await process.answer(carrier.urls[0], value)

            await process.settled(view.id)
            page = await process.runs.journal(view.id, contents=True)
            (taken,) = [entry for entry in page.data if entry.kind == "wait-token-completed"]
            assert value == taken.content

    async def test_an_unfit_answer_leaves_the_wait_open(self, deployment: Deployment) -> None:
        """The refusal says where; the next answer is taken."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Strict))
        async with deployment.process(ship) as process:
            view = await process.start(ship)

            with pytest.raises(AnswerInvalidError) as caught:
                await process.answer(carrier.urls[0], b'{"pickupId":7}')

            assert "/pickupId" == caught.value.issues[0].path
            await process.answer(carrier.urls[0], b'{"pickupId":"pk_7"}')
            assert "completed" == (await process.settled(view.id)).status

    @pytest.mark.case("A25")
    async def test_a_token_id_opens_no_link(self, deployment: Deployment) -> None:
        """Only the token does; what views show is no credential."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            assert view.waiting_for is not None

            for guess in (
                view.waiting_for.tokens[0].token_id,
                "x" * 100_000,
                carrier.urls[0].rsplit("/", 2)[1].lower(),
            ):
                with pytest.raises(WaitTokenNotFoundError):
                    await process.runs.open_link(guess)


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
        ship = one_step(pausing(carrier, timeout_ms=30), retry=Retry(attempts=2))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            while len(carrier.urls) < 2:
                await asyncio.sleep(0.005)

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


class TestTwoAtOnce:
    async def test_twenty_answers_from_four_processes_count_once(self, deployment: Deployment) -> None:
        """One is taken; the others are told the state; the next step runs once."""
        carrier, later = Carrier(), []
        pause = pausing(carrier)

        @tool(id="t.later")
        def after(given: Loose) -> Loose:
            later.append(given.root)
            return given

        then = step("after", after, needs=["pickup"], input=lambda results: results["pickup"])
        ship = flow("t.flow", input=Empty, steps=[step("pickup", pause), then])
        async with (
            deployment.process(ship) as one,
            deployment.process(ship) as two,
            deployment.process(ship) as three,
            deployment.process(ship) as four,
        ):
            view = await one.start(ship)
            processes = (one, two, three, four)
            start = asyncio.Barrier(20)

            async def send(number: int) -> bool:
                await start.wait()
                refused = await refusal(processes[number % 4], carrier.urls[0], str(number).encode())
                assert refused in (None, "completed")
                return refused is None

            taken = await asyncio.gather(*(send(number) for number in range(20)))
            ended = await one.settled(view.id)

            assert 1 == sum(taken)
            assert str(taken.index(True)).encode() == ended.output
            assert 1 == len(later)
            assert 1 == (await one.topics(view.id)).count("wait-token-completed")

    @pytest.mark.case("A12")
    async def test_one_of_two_parallel_waits_answered_runs_no_handler_again(
        self, deployment: Deployment
    ) -> None:
        """The run waits on for the other, and its first handler isn't called again."""
        carrier = Carrier()
        left, right = pausing(carrier, id="t.left"), pausing(carrier, id="t.right")
        both = flow("t.both", input=Empty, steps=[step("left", left), step("right", right)])
        async with deployment.process(both) as process:
            view = await process.start(both)
            assert 2 == len(carrier.urls)

            await process.answer(carrier.urls[0], b"1")
            while (await process.topics(view.id)).count("suspended") < 2:
                await asyncio.sleep(0.005)

            waiting = await process.runs.get(view.id)
            assert waiting.waiting_for is not None
            assert 1 == len(waiting.waiting_for.tokens)
            assert 2 == len(carrier.urls)
            await process.answer(carrier.urls[1], b"2")
            assert "completed" == (await process.settled(view.id)).status


class TestCancel:
    async def test_a_waiting_run_is_cancelled_and_its_link_says_so(self, deployment: Deployment) -> None:
        """Once; a second cancel is told that the run has ended."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process, deployment.process(ship, loops=False) as other:
            view = await process.start(ship)

            assert "cancelled" == (await other.runs.cancel(view.id)).status

            assert "cancelled" == await closed_state(process, carrier.urls[0])
            with pytest.raises(RunAlreadyTerminalError):
                await process.runs.cancel(view.id)

    async def test_a_running_call_sees_that_it_was_cancelled_and_its_result_is_dropped(
        self, deployment: Deployment
    ) -> None:
        """The handler is told through its context; nothing follows the end."""
        seen, inside = asyncio.Event(), asyncio.Event()

        @tool(id="t.slow")
        async def slow(given: Empty, ctx: ToolContext) -> Loose:
            inside.set()
            while not ctx.cancelled:
                await asyncio.sleep(0.005)
            seen.set()
            return Loose(1)

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            await inside.wait()

            await process.runs.cancel(view.id)

            await asyncio.wait_for(seen.wait(), 5)
            assert "cancelled" == (await process.topics(view.id))[-1]

    async def test_a_held_answer_is_discarded_in_the_batch_that_cancels(self, deployment: Deployment) -> None:
        """The discard stands before the end, and says why."""
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            await gate.wait()
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            await process.answer(carrier.urls[0], b"1")

            await process.runs.cancel(view.id)
            gate.set()

            assert ["wait-token-discarded", "cancelled"] == (await process.topics(view.id))[-2:]
            assert "cancelled" == await closed_state(process, carrier.urls[0], b"1")


class TestLostWorker:
    @pytest.mark.case("A14")
    async def test_five_lost_runs_then_the_call_fails_and_every_link_is_dead(
        self, deployment: Deployment
    ) -> None:
        """Each re-run has the same key and a fresh link to the same wait; there is no sixth run."""
        carrier = Carrier()
        hanging = _hanging_tool(carrier)
        ship = one_step(hanging)
        run_id = await _lose_worker(deployment, ship, carrier, None)
        for _ in range(4):
            await _lose_worker(deployment, ship, carrier, run_id)

        async with deployment.process(ship) as process:
            _expire_leases(deployment)
            ended = await process.settled(run_id)

            assert ended.failure is not None
            assert "wait-token-reruns-exhausted" == ended.failure.code
            assert 5 == len(carrier.urls)
            assert 5 == len(set(carrier.urls))
            assert 1 == len(set(carrier.keys))
            for url in carrier.urls:
                assert "unused" == await closed_state(process, url)

    @pytest.mark.case("A14")
    async def test_any_link_of_a_lost_run_answers_the_one_wait(self, deployment: Deployment) -> None:
        """Link 1 answers after the call was run again; link 2 then knows the answer."""
        carrier = Carrier()
        run_id = await _lose_worker(deployment, one_step(_hanging_tool(carrier)), carrier, None)
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            _expire_leases(deployment)
            await process.settled(run_id, "suspended")

            await process.answer(carrier.urls[0], b"1")

            await process.settled(run_id)
            await process.answer(carrier.urls[1], b"1")
            assert "completed" == await closed_state(process, carrier.urls[1], b"2")

    async def test_a_worker_that_lost_its_lease_appends_nothing_more(self, deployment: Deployment) -> None:
        """Its late result is refused by the append; the run is the other's."""
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            if len(carrier.urls) == 1:
                await gate.wait()
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship, loops=False) as stale:
            view = await stale.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            _expire_leases(deployment)
            async with deployment.process(ship) as fresh:
                await fresh.settled(view.id, "suspended")
                before = await fresh.topics(view.id)

                gate.set()
                await asyncio.sleep(0.1)

                assert before == await fresh.topics(view.id)
                assert ["started", "call-started", "rerun", "call-paused", "suspended"] == before

    async def test_a_drained_call_is_run_again_and_not_counted(self, deployment: Deployment) -> None:
        """A call given back by a stop has all its five runs left."""
        carrier, cut = Carrier(), {"done": False}

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            if not cut["done"]:
                await asyncio.sleep(60)
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship, limits=Limits(poll_s=0.02, grace_s=0, drain_s=0.05)) as process:
            view = await process.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            cut["done"] = True

        async with deployment.process(ship) as process:
            await process.settled(view.id, "suspended")
            reruns = [r.event for r in await process.history(view.id) if r.topic == "rerun"]
            assert [("drained", 1), ("drained", 1)] == [(r.cause, r.ordinal) for r in reruns]  # type: ignore[attr-defined]


def _hanging_tool(carrier: Carrier) -> Any:
    @tool(id="t.pause", pauses=True)
    async def hanging(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
        carrier.hand(ctx)
        await asyncio.sleep(3600)
        return ctx.pause()

    return hanging


def _expire_leases(deployment: Deployment) -> None:
    deployment.world.advance(timedelta(seconds=61))


async def _lose_worker(deployment: Deployment, ship: Any, carrier: Carrier, run_id: UUID | None) -> UUID:
    """Start the run, or take it over, and vanish inside its handler without a word."""
    if run_id is not None:
        _expire_leases(deployment)
    handed = len(carrier.urls)
    async with deployment.process(ship, limits=Limits(poll_s=0.02, grace_s=0, drain_s=0)) as process:
        if run_id is None:
            run_id = (await process.start(ship, wait=False)).id
        actor = None
        while actor is None or len(carrier.urls) == handed:
            await asyncio.sleep(0.005)
            actor = process.executor.find(run_id)
        for task in list(actor._tasks):
            task.cancel()
        actor.lost = True
        process.executor.actors.clear()
        process.executor._leases.clear()
    return run_id


class TestScripts:
    async def test_sleep_value_and_step_survive_a_change_of_process(self, deployment: Deployment) -> None:
        """What was recorded is what the program gets, wherever it goes on."""
        steps: list[int] = []

        @script(id="t.script")
        async def program(ctx: ScriptContext, given: Empty) -> Loose:
            first = await ctx.uuid()
            counted = await ctx.step("count", lambda: steps.append(1) or len(steps))
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
                return await ctx.call(tool_called, Empty())

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
