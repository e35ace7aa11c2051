"""Code that changed under a history: the divergence names both sides and the line, and nothing is guessed."""

from typing import Any

import pytest

from abeyance.engine.driver import program_of
from abeyance.engine.operations import Returned
from abeyance.errors import DivergenceError
from abeyance.journal import events as e
from tests.unit.engine.programs import REF, Journal, Payment, script, tool

PAY = tool("shop.pay", takes=Payment)
SHIP = tool("shop.ship")


async def original(ctx: Any, value: Any) -> Any:
    await ctx.call(PAY, amount=1)
    await ctx.call(PAY, amount=2)
    await ctx.step("pack", print, 3)
    await ctx.sleep(4)
    return await ctx.now()


@pytest.fixture
def journal() -> Journal:
    recorded = Journal(script(original))
    for op in ("1", "2", "3", "4"):
        recorded.complete(op)
    recorded.complete("5", "2026-01-02T00:00:00.000000Z")
    return recorded


def divergence(journal: Journal, function: Any) -> DivergenceError:
    with pytest.raises(DivergenceError) as caught:
        journal.replayed(program=program_of(script(function)))
    return caught.value


class TestDivergence:
    def test_two_calls_of_one_tool_that_were_swapped_do_not_trade_results(self, journal: Journal) -> None:
        async def swapped(ctx: Any, value: Any) -> Any:
            await ctx.call(PAY, amount=2)
            await ctx.call(PAY, amount=1)

        error = divergence(journal, swapped)

        assert ("1", "call shop.pay@1.0.0 with other arguments", "call shop.pay@1.0.0") == (
            error.operation,
            error.recorded,
            error.requested,
        )
        assert f"{__name__}:{swapped.__code__.co_firstlineno + 1}" == error.line

    def test_a_call_that_was_removed(self, journal: Journal) -> None:
        async def removed(ctx: Any, value: Any) -> Any:
            await ctx.call(PAY, amount=2)
            await ctx.step("pack", print, 3)

        assert "call shop.pay@1.0.0 with other arguments" == divergence(journal, removed).recorded

    def test_another_tool(self, journal: Journal) -> None:
        async def other(ctx: Any, value: Any) -> Any:
            await ctx.call(SHIP, amount=1)

        error = divergence(journal, other)

        assert ("call shop.pay@1.0.0", "call shop.ship@1.0.0") == (error.recorded, error.requested)

    def test_another_version_of_the_tool(self, journal: Journal) -> None:
        newer = tool("shop.pay", version="2.0.0")

        async def other(ctx: Any, value: Any) -> Any:
            await ctx.call(newer, amount=1)

        error = divergence(journal, other)

        assert ("call shop.pay@1.0.0", "call shop.pay@2.0.0") == (error.recorded, error.requested)

    def test_another_kind(self, journal: Journal) -> None:
        async def other(ctx: Any, value: Any) -> Any:
            await ctx.gather(ctx.call(PAY, amount=1))

        error = divergence(journal, other)

        assert ("1", "gather, which is open") == (error.operation, error.requested)

    @pytest.mark.parametrize(("name", "argument"), [("wrap", 3), ("pack", 4)])
    def test_another_step(self, journal: Journal, name: str, argument: int) -> None:
        async def other(ctx: Any, value: Any) -> Any:
            await ctx.call(PAY, amount=1)
            await ctx.call(PAY, amount=2)
            await ctx.step(name, print, argument)

        error = divergence(journal, other)

        assert ("3", f"step {name}") == (error.operation, error.requested)
        assert error.recorded.startswith("step pack")

    def test_another_duration(self, journal: Journal) -> None:
        async def other(ctx: Any, value: Any) -> Any:
            await ctx.call(PAY, amount=1)
            await ctx.call(PAY, amount=2)
            await ctx.step("pack", print, 3)
            await ctx.sleep(5)

        error = divergence(journal, other)

        assert ("sleep with other arguments", "sleep") == (error.recorded, error.requested)

    def test_another_value(self, journal: Journal) -> None:
        async def other(ctx: Any, value: Any) -> Any:
            await ctx.call(PAY, amount=1)
            await ctx.call(PAY, amount=2)
            await ctx.step("pack", print, 3)
            await ctx.sleep(4)
            await ctx.random()

        error = divergence(journal, other)

        assert ("now", "random") == (error.recorded, error.requested)

    def test_a_program_that_ends_too_early(self, journal: Journal) -> None:
        async def shorter(ctx: Any, value: Any) -> Any:
            return None

        error = divergence(journal, shorter)

        assert ("1", "nothing: it has ended") == (error.operation, error.requested)

    def test_a_program_that_goes_on_where_history_ends(self, journal: Journal) -> None:
        async def longer(ctx: Any, value: Any) -> Any:
            await original(ctx, value)
            await ctx.call(SHIP)

        journal.add(e.Completed(output=REF))

        error = divergence(journal, longer)

        assert "nothing there, but call shop.ship@1.0.0" == error.requested
        assert f"{__name__}:{longer.__code__.co_firstlineno + 2}" == error.line

    def test_an_output_that_the_changed_type_refuses(self, journal: Journal) -> None:
        stricter = tool("shop.pay", gives=Payment)

        async def other(ctx: Any, value: Any) -> Any:
            await ctx.call(stricter, amount=1)

        error = divergence(journal, other)

        assert ("an output of shop.pay", "an output that fits shop.pay@1.0.0") == (
            error.recorded,
            error.requested,
        )

    def test_its_sides_fit_into_the_event_that_records_it(self) -> None:
        name = "n" * 200

        async def before(ctx: Any, value: Any) -> Any:
            await ctx.step(name, print, 1)

        async def after(ctx: Any, value: Any) -> Any:
            await ctx.step(name, print, 2)

        journal = Journal(script(before))
        journal.complete("1")

        error = divergence(journal, after)

        e.CodeMismatch(
            code="0" * 64,
            op=error.operation,
            recorded=error.recorded,
            requested=error.requested,
            line=error.line,
        )


class TestFittingChange:
    def test_moved_lines_renamed_functions_and_reordered_fields_fit(self) -> None:
        async def before(ctx: Any, value: Any) -> Any:
            return await ctx.call(SHIP, a=1, b={"c": 2, "d": 3})

        async def after(ctx: Any, value: Any) -> Any:
            async def ship() -> Any:
                return await ctx.call(SHIP, {"b": {"d": 3, "c": 2}, "a": 1})

            return await ship()

        journal = Journal(script(before))
        journal.complete("1", "sent")

        assert isinstance(journal.replayed(program=program_of(script(after))).outcome, Returned)

    def test_a_field_that_the_tools_input_got_since_fits(self) -> None:
        class Wider(Payment):
            note: str = "none"

        wider = tool("shop.pay", takes=Wider)

        async def before(ctx: Any, value: Any) -> Any:
            return await ctx.call(PAY, amount=1)

        async def after(ctx: Any, value: Any) -> Any:
            return await ctx.call(wider, amount=1)

        journal = Journal(script(before))
        journal.start_call("1")

        assert None is not journal.replayed(program=program_of(script(after))).request("1")
