"""How programs end: by their own errors, by awaiting what no history can give, or from outside."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from abeyance.engine.operations import (
    Raised,
    Returned,
)
from abeyance.errors import (
    DivergenceError,
)
from abeyance.journal import events as e
from abeyance.journal.canonical import decode
from tests.unit.engine.programs import (
    REF,
    Journal,
    script,
    tool,
)

ECHO = tool("shop.echo")


def output(journal: Journal) -> Any:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Returned), outcome
    return decode(outcome.output)


def raised(journal: Journal) -> Raised:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Raised), outcome
    return outcome


async def sleeps() -> None:
    await asyncio.sleep(1)


async def yields() -> None:
    await asyncio.sleep(0)


async def makes_a_future() -> None:
    await asyncio.get_running_loop().create_future()


async def reads_the_loops_clock() -> None:
    asyncio.get_running_loop().time()


class TestForeignAwait:
    @pytest.mark.case("I10")
    @pytest.mark.parametrize("foreign", [sleeps, yields, makes_a_future, reads_the_loops_clock])
    @pytest.mark.parametrize("inside", [False, True])
    def test_it_fails_the_run_with_line_and_way_out_inside_a_loop_and_outside(
        self, foreign: Any, inside: bool
    ) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await foreign()

        async def in_a_loop() -> Journal:
            return Journal(script(program))

        journal = asyncio.run(in_a_loop()) if inside else Journal(script(program))

        outcome = raised(journal)
        assert "nondeterministic-await" == outcome.code
        assert "ctx.sleep" in outcome.detail
        assert f"{__name__}:{foreign.__code__.co_firstlineno + 1}" == outcome.line

    def test_the_executors_loop_is_there_again_afterwards(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.now()

        async def in_a_loop() -> bool:
            loop = asyncio.get_running_loop()
            Journal(script(program))
            await asyncio.sleep(0)
            return loop is asyncio.get_running_loop()

        assert asyncio.run(in_a_loop())

    def test_a_generator_that_is_left_is_never_finished_by_the_executors_loop(self) -> None:
        ended: list[str] = []

        async def numbers(ctx: Any) -> Any:
            try:
                while True:
                    yield await ctx.now()
            finally:
                ended.append("in the program")

        async def program(ctx: Any, value: Any) -> Any:
            async for _ in numbers(ctx):
                break
            return list(ended)

        async def in_a_loop() -> Journal:
            journal = Journal(script(program))
            journal.complete("1", "2026-01-02T00:00:00.000000Z")
            return journal

        assert ["in the program"] == output(asyncio.run(in_a_loop()))

    def test_results_that_were_under_way_are_taken_and_dropped(self) -> None:
        async def waits(ctx: Any) -> None:
            await ctx.call(ECHO, 1)

        async def program(ctx: Any, value: Any) -> Any:
            async def strays() -> None:
                await ctx.now()
                await asyncio.sleep(0)

            await ctx.gather(waits(ctx), strays())

        journal = Journal(script(program))
        journal.start_call("1.b1.1")
        journal.complete("1.b2.1", "2026-01-02T00:00:00.000000Z")

        assert "nondeterministic-await" == raised(journal).code
        assert journal.driver.is_abandoned("1.b1.1")
        journal.add(e.CallCompleted(op="1.b1.1", output=REF), 1)
        journal.add(e.Failed(code="nondeterministic-await"))


class TestProgramEnd:
    def test_an_error_ends_it_with_the_line_in_the_users_own_package(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.now()
            return UUID("nonsense")

        journal = Journal(script(program))
        journal.complete("1", "2026-01-02T00:00:00.000000Z")

        outcome = raised(journal)
        assert ("handler-error", None) == (outcome.code, outcome.node)
        assert "ValueError: badly formed hexadecimal UUID string" == outcome.detail
        assert f"{__name__}:{program.__code__.co_firstlineno + 2}" == outcome.line

    @pytest.mark.parametrize("error", [SystemExit(3), BaseException("odd"), StopIteration(1)])
    def test_no_exception_of_a_program_gets_out(self, error: BaseException) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            raise error

        assert "handler-error" == raised(Journal(script(program))).code

    def test_an_interrupt_is_not_the_programs_end(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Journal(script(program))

    def test_a_message_that_cannot_be_shown_is_no_trouble(self) -> None:
        class Odd(Exception):
            def __str__(self) -> str:
                raise ValueError

        async def program(ctx: Any, value: Any) -> Any:
            raise Odd if value else ValueError("\ud800")

        assert "Odd: (its message can't be shown)" == raised(Journal(script(program), 1)).detail
        assert "ValueError: \\ud800" == raised(Journal(script(program), 0)).detail

    @pytest.mark.parametrize(
        ("value", "code"), [("x", "input-validation-failed"), (1, "output-validation-failed")]
    )
    def test_input_and_output_are_checked(self, value: Any, code: str) -> None:
        async def program(ctx: Any, value: int) -> Any:
            return "not a number"

        assert code == raised(Journal(script(program, takes=int, gives=int), value)).code

    def test_completed_is_a_divergence_until_it_has_returned(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.now()

        journal = Journal(script(program))
        driver = journal.replayed()

        with pytest.raises(DivergenceError, match="history holds completed"):
            driver.feed(2, e.Completed(output=REF))
        journal.complete("1", "2026-01-02T00:00:00.000000Z")
        journal.add(e.Completed(output=REF))

    @pytest.mark.parametrize("end", [e.Failed(code="run-expired"), e.Cancelled()])
    def test_a_run_may_be_stopped_at_any_time_and_nothing_follows(self, end: e.Event) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.now()

        journal = Journal(script(program))
        journal.add(end)

        with pytest.raises(DivergenceError):
            journal.add(e.ValueRecorded(kind="now", op="1", value="2026-01-02T00:00:00.000000Z"))
