"""Calls and their waits: what each event means to a program that waits for nothing else."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from abeyance.engine.operations import (
    CallRequest,
    Raised,
    Returned,
)
from abeyance.errors import (
    CallFailedError,
    DivergenceError,
    InvalidOperationError,
)
from abeyance.journal import events as e
from abeyance.journal.canonical import decode
from tests.unit.engine.programs import (
    AT,
    REF,
    Journal,
    Payment,
    call_started,
    digest_args,
    script,
    tool,
)

PAY = tool("shop.pay", takes=Payment, gives=Payment)


ECHO = tool("shop.echo")


def output(journal: Journal) -> Any:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Returned), outcome
    return decode(outcome.output)


def raised(journal: Journal) -> Raised:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Raised), outcome
    return outcome


class TestCall:
    async def program(self, ctx: Any, value: Any) -> Any:
        paid = await ctx.call(PAY, amount=value)
        return [type(paid).__name__, paid.amount, paid.order_id]

    def test_it_is_asked_for_with_its_place_wire_input_and_line(self) -> None:
        journal = Journal(script(self.program), 7)

        (request,) = journal.driver.wanted()

        assert isinstance(request, CallRequest)
        assert ("1", "1", PAY) == (request.op, request.node, request.tool)
        assert b'{"amount":7,"order_id":"none"}' == request.input
        assert digest_args(b'call\x00shop.pay\x00{"amount":7}') == request.args
        line = self.program.__code__.co_firstlineno + 1
        assert f"{__name__}:{line}" == request.line

    def test_its_request_is_one_object_while_it_is_asked_for_and_open(self) -> None:
        journal = Journal(script(self.program), 7)
        request = journal["1"]

        journal.start_call("1")

        assert request is journal["1"]
        assert () == journal.driver.wanted()

    def test_its_result_is_the_stored_output_as_the_tools_type(self) -> None:
        journal = Journal(script(self.program), 7)

        journal.complete("1", {"amount": 3, "order_id": "a"})

        assert ["Payment", 3, "a"] == output(journal)

    def test_wire_names_are_sent_whatever_names_the_script_uses(self) -> None:
        class Order(BaseModel):
            model_config = {"alias_generator": lambda name: name.upper()}
            order_id: int

        send = tool("shop.send", takes=Order)

        async def program(ctx: Any, value: Any) -> None:
            await ctx.gather(
                ctx.call(send, order_id=1), ctx.call(send, ORDER_ID=1), ctx.call(send, Order(ORDER_ID=1))
            )

        inputs = {request.input for request in Journal(script(program)).driver.wanted()}  # type: ignore[union-attr]

        assert {b'{"ORDER_ID":1}'} == inputs

    def test_an_input_that_does_not_fit_is_sent_as_it_is(self) -> None:
        async def program(ctx: Any, value: Any) -> None:
            await ctx.call(PAY, amount="much", z=None)

        request = Journal(script(program))["1"]

        assert isinstance(request, CallRequest)
        assert b'{"amount":"much","z":null}' == request.input

    def test_a_final_failure_is_raised_at_its_await_and_can_be_caught(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.call(ECHO, 1)
            except CallFailedError as error:
                return [error.failure_code, error.tool, error.operation, error.detail]

        journal = Journal(script(program))

        journal.fail("1", "handler-timeout", detail={"after": 3})

        assert ["handler-timeout", "shop.echo", "1", {"after": 3}] == output(journal)

    def test_an_escaped_failure_keeps_its_code_and_node(self) -> None:
        journal = Journal(script(self.program), 7)

        journal.fail("1", "wait-token-timed-out", detail="no answer came")

        outcome = raised(journal)
        assert ("wait-token-timed-out", "no answer came", "1") == (
            outcome.code,
            outcome.detail,
            outcome.node,
        )
        assert f"{__name__}:{self.program.__code__.co_firstlineno + 1}" == outcome.line

    def test_the_detail_of_a_failure_is_read_only_when_it_is_asked_for(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.call(ECHO, 1)
            except CallFailedError as error:
                return error.failure_code

        journal = Journal(script(program))

        version = journal.fail("1")

        assert "handler-error" == output(journal)
        assert version not in journal.read

    def test_a_retry_starts_the_same_operation_again(self) -> None:
        journal = Journal(script(self.program), 7)

        journal.fail("1", final=False)
        journal.add(e.RetryScheduled(attempt=2, due_at=AT, op="1"))
        assert [] == journal.wanted
        assert None is journal.driver.outcome
        journal.start_call("1")
        journal.complete("1", {"amount": 3})

        assert ["Payment", 3, "none"] == output(journal)

    @pytest.mark.parametrize(("failed", "attempt"), [(False, 1), (False, 2), (True, 1), (True, 3)])
    def test_a_start_that_is_no_retry_is_a_divergence(self, failed: bool, attempt: int) -> None:
        journal = Journal(script(self.program), 7)
        request = journal["1"]
        assert isinstance(request, CallRequest)
        journal.start_call("1")
        if failed:
            journal.fail("1", final=False)

        with pytest.raises(DivergenceError):
            journal.add(call_started(request, attempt=attempt))

    def test_a_wrong_way_to_call_is_refused_where_it_stands(self) -> None:
        async def program(ctx: Any, value: Any) -> list[str]:
            problems = []
            wrong: Any
            for wrong in (
                lambda: ctx.call("shop.pay"),
                lambda: ctx.call(PAY, {"amount": 1}, amount=1),
                lambda: ctx.call(PAY, object()),
                lambda: ctx.call(PAY, amount=float("nan")),
                lambda: ctx.call(PAY, amount="\ud800"),
                lambda: ctx.step("", print),
                lambda: ctx.step("two\nlines", print),
                lambda: ctx.step(print, "name"),
                lambda: ctx.step("name", 5),
                lambda: ctx.step("name", print, object()),
                lambda: ctx.sleep(-1),
                lambda: ctx.sleep(True),
                lambda: ctx.sleep(float("inf")),
                lambda: ctx.sleep("1"),
                lambda: ctx.sleep(timedelta(days=36_501)),
                lambda: ctx.race(),
                lambda: ctx.gather(1),
            ):
                try:
                    wrong()
                except InvalidOperationError as error:
                    problems.append(str(error))
            return problems

        assert 17 == len(output(Journal(script(program))))


class TestWaitToken:
    async def program(self, ctx: Any, value: Any) -> Any:
        return await ctx.call(ECHO, 1)

    def test_an_answer_is_the_result_of_its_call(self) -> None:
        journal = Journal(script(self.program))
        journal.start_call("1", wait="w:1")

        journal.add(e.CallPaused(line="a:1", op="1", times_out_at=AT, wait="w:1"))
        assert None is journal.driver.outcome
        journal.add(e.WaitTokenCompleted(answer=REF, by="link", wait="w:1"), {"ok": True})

        assert {"ok": True} == output(journal)

    def test_a_held_answer_is_read_where_it_was_stored(self) -> None:
        journal = Journal(script(self.program))
        journal.start_call("1", wait="w:1")

        journal.add(e.WaitTokenAnswered(answer=REF, by="link", wait="w:1"), "early")
        assert None is journal.driver.outcome
        journal.add(e.CallPaused(line="a:1", op="1", times_out_at=AT, wait="w:1"))
        journal.add(e.WaitTokenCompleted(answer=REF, by="link", held=True, wait="w:1"), store=False)

        assert "early" == output(journal)

    def test_a_discarded_answer_or_a_time_out_changes_nothing_for_the_program(self) -> None:
        journal = Journal(script(self.program))
        journal.start_call("1", wait="w:1")

        journal.add(e.WaitTokenAnswered(answer=REF, by="link", wait="w:1"), "early")
        journal.add(e.WaitTokenDiscarded(answer=REF, reason="answered-at-once", wait="w:1"))
        journal.add(e.WaitTokenTimedOut(wait="w:1"))

        assert None is journal.driver.outcome

    def test_after_a_retry_only_the_new_wait_counts(self) -> None:
        journal = Journal(script(self.program))
        journal.start_call("1", wait="w:1")
        journal.fail("1", final=False)
        journal.start_call("1", wait="w:2")

        driver = journal.replayed()
        with pytest.raises(DivergenceError):
            driver.feed(9, e.WaitTokenCompleted(answer=REF, by="link", wait="w:1"))
        journal.add(e.WaitTokenCompleted(answer=REF, by="link", wait="w:2"), 2)

        assert 2 == output(journal)

    @pytest.mark.parametrize("held", [None, True])
    def test_an_answer_for_nothing_is_a_divergence(self, held: bool | None) -> None:
        journal = Journal(script(self.program))
        if held:
            journal.start_call("1", wait="w:1")

        with pytest.raises(DivergenceError):
            journal.add(e.WaitTokenCompleted(answer=REF, by="link", held=held, wait="w:1"))
