"""Parts of a gather or race: what is taken, what each may see of the others, and how many there may be."""

import contextvars
import decimal
from typing import Any

from abeyance.engine.operations import Raised, Returned
from abeyance.engine.scheduler import MAX_BRANCHES
from abeyance.errors import (
    InvalidOperationError,
    TooManyBranchesError,
)
from abeyance.journal.canonical import decode
from tests.unit.engine.programs import Journal, script, tool

ECHO = tool("shop.echo")


def output(journal: Journal) -> Any:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Returned), outcome
    return decode(outcome.output)


def code(journal: Journal) -> str:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Raised), outcome
    return outcome.code


class TestParts:
    def test_an_operation_or_coroutine_is_taken_once(self) -> None:
        async def part(ctx: Any) -> None:
            await ctx.now()

        async def program(ctx: Any, value: Any) -> Any:
            operation, coroutine = ctx.now(), part(ctx)
            try:
                ctx.gather(operation, operation)
            except InvalidOperationError as error:
                problem = str(error)
            try:
                ctx.race(coroutine, coroutine)
            except InvalidOperationError:
                return problem

        assert "ctx.gather takes each operation and coroutine once" == output(Journal(script(program)))

    def test_an_operation_that_was_awaited_fails_its_branch(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            operation = ctx.now()
            await operation
            await ctx.gather(operation)

        journal = Journal(script(program))
        journal.complete("1", "2026-01-02T00:00:00.000000Z")

        assert "handler-error" == code(journal)

    def test_each_branch_has_its_own_context_variables(self) -> None:
        name = contextvars.ContextVar("name", default="none")

        async def part(ctx: Any, own: str) -> Any:
            before = name.get()
            name.set(own)
            with decimal.localcontext() as arithmetic:
                arithmetic.prec = len(own)
                await ctx.sleep(1)
                return [before, name.get(), decimal.getcontext().prec]

        async def program(ctx: Any, value: Any) -> Any:
            seen = [name.get()]
            name.set("outer")
            parts = await ctx.gather(part(ctx, "a"), part(ctx, "bb"))
            return [*seen, *parts, name.get()]

        name.set("the executor's")
        journal = Journal(script(program))
        for op in ("1.b2.1", "1.b1.1"):
            journal.complete(op)

        assert ["none", ["outer", "a", 1], ["outer", "bb", 2], "outer"] == output(journal)
        assert "the executor's" == name.get()


class TestLimits:
    def test_as_many_branches_as_a_run_may_have_are_taken(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.gather(*(ctx.now() for _ in range(MAX_BRANCHES)))

        assert 1_000 == len(Journal(script(program)).wanted)

    def test_one_more_is_a_failure_that_says_so_and_opens_none(self) -> None:
        async def part(ctx: Any) -> None:
            await ctx.now()

        async def program(ctx: Any, value: Any) -> Any:
            await ctx.gather(*(part(ctx) for _ in range(MAX_BRANCHES + 1)))

        journal = Journal(script(program))

        assert "too-many-branches" == code(journal)
        assert () == journal.driver.wanted()

    def test_branches_count_together_and_only_while_they_are_open(self) -> None:
        async def half(ctx: Any) -> Any:
            return await ctx.gather(*(ctx.now() for _ in range(MAX_BRANCHES // 2)))

        async def program(ctx: Any, value: Any) -> Any:
            await ctx.gather(*(ctx.now() for _ in range(MAX_BRANCHES)))
            try:
                await ctx.gather(half(ctx), half(ctx))
            except TooManyBranchesError as error:
                return error.limit

        journal = Journal(script(program))
        for index in range(MAX_BRANCHES):
            journal.complete(f"1.b{index + 1}.1", "2026-01-02T00:00:00.000000Z")

        assert ["2"] == journal.wanted, "the second half fails, so the first one is cancelled"
        journal.complete("2")
        assert 1_000 == output(journal)

    def test_ids_stay_short_enough_for_events_however_deep_the_branches(self) -> None:
        async def deeper(ctx: Any) -> None:
            await ctx.gather(deeper(ctx))

        async def program(ctx: Any, value: Any) -> Any:
            await deeper(ctx)

        assert "handler-error" == code(Journal(script(program)))
