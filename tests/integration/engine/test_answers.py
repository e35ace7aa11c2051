"""Answers on both stores: early ones, the same again, unfit ones, many at once."""

import asyncio

import pytest

from abeyance import PauseAnswer, ToolContext, flow, step, tool
from abeyance.errors import AnswerInvalidError, WaitTokenNotFoundError
from tests.support.carrier import Carrier, Empty, Loose, Strict, closed_state, one_step, pausing, refusal
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio


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
