"""Branches: order, ends of races and gathers, losers. Every end comes from stored order."""

from typing import Any

import pytest

from abeyance.engine.awaitables import Winner
from abeyance.engine.operations import CallRequest, DecideRequest, Raised, Returned, StepRequest
from abeyance.errors import (
    BranchCancelled,
    CallFailedError,
    DivergenceError,
)
from abeyance.journal import events as e
from abeyance.journal.canonical import decode
from tests.unit.engine.programs import AT, REF, Journal, call_started, script, step_completed, tool

ECHO = tool("shop.echo")


PICK = tool("shop.pick")


def output(journal: Journal) -> Any:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Returned), outcome
    return decode(outcome.output)


def code(journal: Journal) -> str:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Raised), outcome
    return outcome.code


class TestGather:
    def test_it_gives_results_in_the_order_of_its_parts(self) -> None:
        async def part(ctx: Any, name: str) -> list[Any]:
            return [await ctx.step(f"{name}1", print), await ctx.step(f"{name}2", print)]

        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.gather(part(ctx, "a"), ctx.step("b", print), part(ctx, "c"))

        journal = Journal(script(program))

        assert ["1.b1.1", "1.b2.1", "1.b3.1"] == journal.wanted
        for op in ("1.b3.1", "1.b2.1", "1.b1.1", "1.b3.2", "1.b1.2"):
            journal.complete(op, op)

        assert [["1.b1.1", "1.b1.2"], "1.b2.1", ["1.b3.1", "1.b3.2"]] == output(journal)

    def test_it_goes_on_under_the_next_number(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.gather(ctx.now(), ctx.now())
            await ctx.uuid()

        journal = Journal(script(program))
        for op in ("1.b1.1", "1.b2.1"):
            journal.complete(op, "2026-01-02T00:00:00.000000Z")

        assert ["2"] == journal.wanted

    def test_of_nothing_it_is_empty_at_once(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.gather()

        assert [] == output(Journal(script(program)))

    @pytest.mark.case("I05")
    @pytest.mark.parametrize("order", [("1.b1.1", "1.b2.1"), ("1.b2.1", "1.b1.1")])
    def test_which_of_two_failures_is_seen_comes_from_stored_order(self, order: tuple[str, str]) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.gather(ctx.call(ECHO, 1), ctx.call(ECHO, 2), ctx.call(ECHO, 3))
            except CallFailedError as error:
                return error.operation

        journal = Journal(script(program))
        for op in order:
            journal.start_call(op)
        journal.fail(order[0])
        journal.add(e.CallFailed(attempt=1, code="handler-error", final=True, op=order[1]))
        journal.complete("1")

        assert order[0] == output(journal)
        assert journal.driver.outcome == journal.replayed().outcome

    def test_its_first_failure_is_decided_before_the_others_are_cancelled(self) -> None:
        seen = []

        async def slow(ctx: Any) -> None:
            try:
                await ctx.call(ECHO, 1)
            except BranchCancelled:
                seen.append("cancelled")
                raise

        async def program(ctx: Any, value: Any) -> Any:
            await ctx.gather(slow(ctx), ctx.call(PICK, 1))

        journal = Journal(script(program))
        journal.fail("1.b2.1", "handler-timeout")

        (request,) = journal.driver.wanted()
        assert isinstance(request, DecideRequest)
        assert ("1", 2, []) == (request.op, request.winner, seen)
        journal.complete("1")

        assert ["cancelled"] == seen
        assert "handler-timeout" == code(journal)

    def test_a_failure_of_the_last_branch_needs_no_decision(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.gather(ctx.call(ECHO, 1), ctx.call(PICK, 1))

        journal = Journal(script(program))
        journal.complete("1.b1.1")
        journal.fail("1.b2.1")

        assert [] == journal.wanted
        assert "handler-error" == code(journal)

    def test_with_return_exceptions_failures_are_results(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            first, second = await ctx.gather(ctx.call(ECHO, 1), ctx.call(PICK, 1), return_exceptions=True)
            return [first.failure_code, second]

        journal = Journal(script(program))
        journal.fail("1.b1.1")
        journal.complete("1.b2.1", 2)

        assert ["handler-error", 2] == output(journal)


class TestRace:
    async def program(self, ctx: Any, value: Any) -> Any:
        winner = await ctx.race(ctx.call(ECHO, 1), ctx.sleep(60))
        assert isinstance(winner, Winner)
        return [winner.index, winner.value]

    @pytest.mark.case("A23")
    def test_it_ends_with_the_decision_and_nothing_of_the_loser_is_left(self) -> None:
        journal = Journal(script(self.program))
        timer = journal["1.b2.1"]
        journal.add(e.TimerSet(args=timer.args, due_at=AT, op="1.b2.1"))  # type: ignore[union-attr]
        journal.complete("1.b1.1", "x")

        assert ["1"] == journal.wanted
        assert journal.driver.is_abandoned("1.b2.1")
        assert None is journal.driver.request("1.b2.1")
        journal.complete("1")

        assert [0, "x"] == output(journal)
        assert () == journal.driver.wanted()

    def test_its_decision_is_one_object_until_it_is_taken(self) -> None:
        journal = Journal(script(self.program))
        journal.complete("1.b1.1", "x")

        (request,) = journal.driver.wanted()

        assert request is journal.driver.request("1")
        assert request is journal.driver.wanted()[0]

    def test_what_the_loser_has_not_begun_is_wanted_no_more(self) -> None:
        journal = Journal(script(self.program))

        assert ["1.b1.1", "1.b2.1"] == journal.wanted
        journal.complete("1.b1.1", "x")

        assert ["1"] == journal.wanted

    def test_a_late_result_of_the_loser_is_taken_and_given_to_nobody(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.race(ctx.call(ECHO, 1), ctx.call(PICK, 1), ctx.step("s", print))

        journal = Journal(script(program))
        late = journal["1.b3.1"]
        assert isinstance(late, StepRequest)
        journal.start_call("1.b2.1", wait="w:1")
        journal.complete("1.b1.1", "x")
        answer = journal.add(e.WaitTokenCompleted(answer=REF, by="link", wait="w:1"), "between")
        journal.complete("1")
        journal.add(e.CallCompleted(op="1.b2.1", output=REF), "late")
        journal.add(step_completed(late), "late")

        assert [0, "x"] == output(journal)
        assert answer not in journal.read

    def test_a_read_only_call_of_the_loser_may_still_be_recorded_with_its_result(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.race(ctx.call(ECHO, 1), ctx.call(PICK, 1))

        journal = Journal(script(program))
        late = journal["1.b2.1"]
        assert isinstance(late, CallRequest)
        journal.complete("1.b1.1", "x")
        journal.add(call_started(late, wait="w:9"))
        journal.add(e.CallFailed(attempt=1, code="branch-cancelled", final=True, op="1.b2.1"))
        journal.complete("1")

        assert [0, "x"] == output(journal)

    def test_a_losers_record_must_still_be_its_own(self) -> None:
        journal = Journal(script(self.program))
        journal.complete("1.b1.1", "x")

        with pytest.raises(DivergenceError):
            journal.add(e.TimerSet(args="0" * 32, due_at=AT, op="1.b2.1"))

    def test_the_winners_exception_is_raised(self) -> None:
        journal = Journal(script(self.program))
        journal.fail("1.b1.1", "handler-timeout")
        journal.complete("1")

        assert "handler-timeout" == code(journal)

    def test_another_winner_than_the_recorded_one_is_a_divergence(self) -> None:
        journal = Journal(script(self.program))
        journal.complete("1.b1.1", "x")

        with pytest.raises(DivergenceError, match="end by branch 2"):
            journal.add(e.RaceDecided(closed=0, op="1", winner=2))

    def test_an_end_that_nobody_asked_for_is_a_divergence(self) -> None:
        with pytest.raises(DivergenceError, match="race, which is open"):
            Journal(script(self.program)).add(e.RaceDecided(closed=0, op="1", winner=1))

    def test_branches_that_end_at_once_are_decided_in_their_order(self) -> None:
        async def at_once(name: str) -> str:
            return name

        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.race(at_once("a"), at_once("b"))

        journal = Journal(script(program))

        assert ["1"] == journal.wanted
        journal.complete("1")
        assert [0, "a"] == output(journal)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_the_winner_comes_from_stored_order_also_when_an_effect_ended_first(
        self, order: tuple[int, int]
    ) -> None:
        """Branch A has its effect done when another event lands before the append of its result."""

        async def pays(ctx: Any) -> str:
            await ctx.call(ECHO, 1)
            return str(await ctx.step("pay", print))

        async def hears(ctx: Any) -> str:
            return str(await ctx.call(PICK, 1))

        async def program(ctx: Any, value: Any) -> Any:
            return (await ctx.race(pays(ctx), hears(ctx))).value

        journal = Journal(script(program))
        journal.start_call("1.b2.1", wait="w:1")
        journal.complete("1.b1.1")
        effect = journal["1.b1.2"]  # done now, not stored yet
        assert isinstance(effect, StepRequest)
        events = [
            (step_completed(effect), "paid"),
            (e.WaitTokenCompleted(answer=REF, by="link", wait="w:1"), "heard"),
        ]
        for index in order:
            journal.add(*events[index])
        journal.complete("1")

        assert ("paid", "heard")[order[0]] == output(journal)
        assert journal.driver.outcome == journal.replayed().outcome


class TestLoser:
    def test_it_may_clean_up_under_its_own_path_before_the_race_hands_on(self) -> None:
        async def books(ctx: Any) -> str:
            try:
                await ctx.call(ECHO, "book")
            except BranchCancelled:
                await ctx.call(ECHO, "cancel the booking")
                raise
            return "booked"

        async def program(ctx: Any, value: Any) -> Any:
            winner = await ctx.race(books(ctx), ctx.sleep(60))
            return [winner.index, await ctx.step("after", print)]

        journal = Journal(script(program))
        journal.start_call("1.b1.1")
        journal.complete("1.b2.1")
        assert ["1"] == journal.wanted
        journal.complete("1")

        assert ["1.b1.2"] == journal.wanted
        assert None is journal.driver.outcome
        journal.complete("1.b1.2")
        journal.complete("2", "done")

        assert [1, "done"] == output(journal)

    @pytest.mark.parametrize("ends", ["returns", "raises"])
    def test_what_it_returns_or_raises_is_dropped(self, ends: str) -> None:
        async def stubborn(ctx: Any) -> str:
            try:
                await ctx.call(ECHO, 1)
            except BranchCancelled:
                if ends == "raises":
                    raise ValueError from None
            return "stayed"

        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.race(stubborn(ctx), ctx.sleep(60))

        journal = Journal(script(program))
        journal.complete("1.b2.1")
        journal.complete("1")

        assert [1, None] == output(journal)

    def test_losers_are_cancelled_in_branch_order_inner_ones_first(self) -> None:
        seen: list[str] = []

        async def waits(ctx: Any, name: str) -> None:
            try:
                await ctx.call(ECHO, name)
            finally:
                seen.append(name)

        async def nests(ctx: Any) -> None:
            try:
                await ctx.gather(waits(ctx, "inner 1"), waits(ctx, "inner 2"))
            finally:
                seen.append("outer")

        async def program(ctx: Any, value: Any) -> Any:
            await ctx.race(waits(ctx, "first"), nests(ctx), ctx.sleep(1), waits(ctx, "last"))

        journal = Journal(script(program))
        journal.complete("1.b3.1")
        journal.complete("1")

        assert ["first", "inner 1", "inner 2", "last", "outer"] == seen
        assert None is output(journal)

    def test_a_race_inside_a_lost_branch_is_decided_no_more(self) -> None:
        async def nests(ctx: Any) -> Any:
            return await ctx.race(ctx.call(ECHO, 1), ctx.call(ECHO, 2))

        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.race(nests(ctx), ctx.call(PICK, 1))

        journal = Journal(script(program))
        journal.start_call("1.b2.1")
        journal.complete("1.b1.1.b1.1", "inner")
        inner = journal["1.b1.1"]
        assert isinstance(inner, DecideRequest)
        journal.complete("1.b2.1", "outer")

        assert ["1"] == journal.wanted
        assert journal.driver.is_abandoned("1.b1.1")
        journal.add(e.RaceDecided(closed=0, op="1.b1.1", winner=1))
        journal.complete("1")

        assert [1, "outer"] == output(journal)

    def test_two_races_that_end_by_one_event_are_decided_from_outside(self) -> None:
        async def nests(ctx: Any) -> Any:
            await ctx.race(ctx.call(ECHO, 1), ctx.call(ECHO, 2))

        async def strays(ctx: Any) -> None:
            raise ValueError

        async def program(ctx: Any, value: Any) -> Any:
            async def both() -> Any:
                await ctx.now()
                return await ctx.gather(nests(ctx), ctx.race(at_once(), ctx.call(ECHO, 3)), strays(ctx))

            async def at_once() -> None:
                pass

            await ctx.gather(both(), ctx.call(PICK, 1))

        journal = Journal(script(program))
        journal.complete("1.b1.1", "2026-01-02T00:00:00.000000Z")

        assert ["1.b2.1", "1.b1.2"] == journal.wanted

    def test_a_branch_that_lost_by_the_event_that_moved_it_moves_no_further(self) -> None:
        async def fails() -> None:
            raise ValueError

        async def at_once() -> str:
            return "first"

        async def nests(ctx: Any) -> None:
            try:
                await ctx.gather(fails())
            except ValueError:
                await ctx.step("leak", print)

        async def wins(ctx: Any) -> Any:
            return await ctx.gather(at_once())

        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.race(nests(ctx), wins(ctx))

        journal = Journal(script(program))

        assert ["1"] == journal.wanted
        journal.complete("1")
        assert [1, ["first"]] == output(journal)

    def test_cancelled_while_it_cleans_up_it_is_cancelled_again(self) -> None:
        seen = []

        async def inner(ctx: Any) -> None:
            for name in ("once", "twice"):
                try:
                    await ctx.call(ECHO, name)
                except BranchCancelled:
                    seen.append(name)
            await ctx.call(ECHO, "end")

        async def nests(ctx: Any) -> Any:
            await ctx.race(inner(ctx), ctx.sleep(1))

        async def program(ctx: Any, value: Any) -> Any:
            return (await ctx.race(nests(ctx), ctx.sleep(2))).index

        journal = Journal(script(program))
        journal.complete("1.b1.1.b2.1")
        journal.complete("1.b1.1")
        journal.complete("1.b2.1")
        journal.complete("1")

        assert ["once", "twice"] == seen
        assert ["1.b1.1.b1.3"] == journal.wanted
        journal.complete("1.b1.1.b1.3")
        assert 1 == output(journal)
