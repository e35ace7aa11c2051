"""Flows: steps as branches under their own ids, by one interpreter."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from abeyance.engine.definitions import Retry
from abeyance.engine.driver import program_of
from abeyance.engine.flows import FAILURE
from abeyance.engine.operations import CallRequest, DecideRequest, Raised, Returned
from abeyance.errors import DivergenceError, InvalidDefinitionError
from abeyance.journal import events as e
from abeyance.journal.canonical import decode
from tests.unit.engine.programs import REF, Journal, flow, shape, step, tool

ECHO = tool("shop.echo")


class Order(BaseModel):
    number: int


def output(journal: Journal) -> Any:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Returned), outcome
    return decode(outcome.output)


def raised(journal: Journal) -> Raised:
    outcome = journal.driver.outcome
    assert isinstance(outcome, Raised), outcome
    return outcome


def sent(journal: Journal, op: str) -> Any:
    request = journal[op]
    assert isinstance(request, CallRequest)
    return decode(request.input)


class TestOrder:
    def test_steps_that_do_not_need_each_other_are_asked_for_together_in_their_order(self) -> None:
        journal = Journal(flow(step("b", ECHO), step("a", ECHO), step("c", ECHO, "a", "b")), {"n": 1})

        assert ["b", "a"] == journal.wanted
        journal.complete("a")
        assert ["b"] == journal.wanted
        journal.complete("b")
        assert ["c"] == journal.wanted

    def test_a_step_may_need_one_that_stands_after_it(self) -> None:
        journal = Journal(flow(step("last", ECHO, "first"), step("first", ECHO)))

        assert ["first"] == journal.wanted
        journal.complete("first")
        assert ["last"] == journal.wanted

    def test_steps_that_become_ready_at_once_are_asked_for_in_their_order(self) -> None:
        steps = [
            step("z", ECHO, "root"),
            step("y", ECHO, "root"),
            step("root", ECHO),
            step("x", ECHO, "root"),
        ]
        journal = Journal(flow(*steps))

        journal.complete("root")

        assert ["z", "y", "x"] == journal.wanted

    def test_a_circle_is_refused(self) -> None:
        with pytest.raises(InvalidDefinitionError):
            program_of(flow(step("a", ECHO, "b"), step("b", ECHO, "a")))


class TestStep:
    def test_its_call_has_the_steps_id_line_and_retry_and_the_flows_input(self) -> None:
        retry = Retry(attempts=3)
        journal = Journal(flow(step("pickup", ECHO, retry=retry), takes=Order), {"number": 7})

        request = journal["pickup"]

        assert isinstance(request, CallRequest)
        assert ("pickup", "pickup", "shop:pickup", retry) == (
            request.op,
            request.node,
            request.line,
            request.retry,
        )
        assert {"number": 7} == sent(journal, "pickup")

    def test_its_input_is_made_of_the_input_and_what_it_needs(self) -> None:
        priced = tool("shop.price", gives=Order)

        def make(results: Mapping[str, Any]) -> Any:
            return [results["input"].number, results["a"].number, results["b"]]

        journal = Journal(
            flow(step("a", priced), step("b", ECHO, "a"), step("c", ECHO, "b", make_input=make), takes=Order),
            {"number": 7},
        )
        journal.complete("a", {"number": 8})
        journal.complete("b", 9)

        assert [7, 8, 9] == sent(journal, "c")

    def test_it_does_not_see_what_it_does_not_need(self) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO), step("c", ECHO, "a", make_input=dict)))

        journal.complete("b", "fast")
        journal.complete("a", "slow")

        assert {"input": None, "a": "slow"} == sent(journal, "c")

    def test_a_skipped_one_is_none_for_those_that_need_it(self) -> None:
        journal = Journal(
            flow(
                step("check", ECHO),
                step("extra", ECHO, "check", when=lambda results: results["check"]["wanted"]),
                step("end", ECHO, "extra", make_input=lambda results: {"extra": results["extra"]}),
            )
        )

        journal.complete("check", {"wanted": False})

        assert ["end"] == journal.wanted
        assert {"extra": None} == sent(journal, "end")

    def test_a_retry_is_inside_its_operation(self) -> None:
        journal = Journal(flow(step("a", ECHO, retry=Retry(attempts=2))))

        journal.fail("a", final=False)
        assert [] == journal.wanted
        journal.start_call("a")
        journal.complete("a", 5)

        assert 5 == output(journal)


class TestOutput:
    def test_it_is_the_last_steps_output(self) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO)))

        journal.complete("b", "last declared")
        journal.complete("a", "last ended")

        assert "last declared" == output(journal)

    def test_or_made_of_all_results(self) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO), make_output=dict), "in")

        journal.complete("a", 1)
        journal.complete("b", 2)

        assert {"input": "in", "a": 1, "b": 2} == output(journal)

    def test_it_is_checked_if_the_flow_says_what_it_is(self) -> None:
        journal = Journal(flow(step("a", ECHO), output=shape(Order)))

        journal.complete("a", {"number": "many"})

        assert "output-validation-failed" == raised(journal).code


class TestFailure:
    def test_a_failed_step_of_a_line_fails_the_flow_at_once(self) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO, "a"), step("c", ECHO, "b")))

        journal.fail("a", "handler-timeout", detail="too slow")

        outcome = raised(journal)
        assert ("handler-timeout", "too slow", "a") == (outcome.code, outcome.detail, outcome.node)
        assert [] == journal.wanted

    def test_it_cancels_the_steps_under_way_by_a_decision_of_its_own(self) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO), step("c", ECHO, "b")))
        journal.start_call("b", wait="w:1")

        journal.fail("a")

        (request,) = journal.driver.wanted()
        assert isinstance(request, DecideRequest)
        assert (FAILURE, 1) == (request.op, request.winner)
        assert journal.driver.is_abandoned("b")
        journal.complete(FAILURE)
        assert "a" == raised(journal).node
        assert not journal.driver.is_abandoned("c")

    @pytest.mark.case("I05")
    @pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
    def test_which_of_two_failures_counts_comes_from_stored_order(self, order: tuple[str, str]) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO)))
        for op in ("a", "b"):
            journal.start_call(op)

        journal.fail(order[0])
        journal.add(e.CallFailed(attempt=1, code="handler-timeout", final=True, op=order[1]))
        journal.complete(FAILURE)

        assert (order[0], "handler-error") == (raised(journal).node, raised(journal).code)
        assert journal.driver.outcome == journal.replayed().outcome

    @pytest.mark.parametrize("part", ["when", "make_input"])
    def test_an_error_in_a_steps_own_code_names_step_and_line(self, part: str) -> None:
        def broken(results: Mapping[str, Any]) -> Any:
            return results["b"]

        own: dict[str, Any] = {part: broken}
        journal = Journal(flow(step("a", ECHO, **own), step("b", ECHO)))

        journal.complete(FAILURE)

        outcome = raised(journal)
        assert ("handler-error", "KeyError: 'b'", "a") == (outcome.code, outcome.detail, outcome.node)
        assert f"{__name__}:{broken.__code__.co_firstlineno + 1}" == outcome.line

    def test_an_error_in_make_output_names_the_line(self) -> None:
        def broken(results: Mapping[str, Any]) -> Any:
            return results["missing"]

        journal = Journal(flow(step("a", ECHO), make_output=broken))
        journal.complete("a")

        outcome = raised(journal)
        assert (None, f"{__name__}:{broken.__code__.co_firstlineno + 1}") == (outcome.node, outcome.line)

    def test_an_input_that_does_not_fit_fails_before_any_step(self) -> None:
        journal = Journal(flow(step("a", ECHO), takes=Order), {"number": "x"})

        assert "input-validation-failed" == raised(journal).code


class TestChangedFlow:
    def test_steps_that_were_added_before_and_after_fit_a_waiting_run(self) -> None:
        journal = Journal(flow(step("a", ECHO), step("b", ECHO, "a")))
        journal.complete("a", 1)
        journal.start_call("b", wait="w:1")
        journal.add(e.WaitTokenCompleted(answer=REF, by="link", wait="w:1"), 2)

        wider = flow(step("new", ECHO), step("a", ECHO), step("b", ECHO, "a"), step("c", ECHO, "b"))
        driver = journal.replayed(program=program_of(wider))

        assert ["new", "c"] == [request.op for request in driver.wanted()]

    def test_a_step_that_was_renamed_does_not(self) -> None:
        journal = Journal(flow(step("a", ECHO)))
        journal.start_call("a")

        with pytest.raises(DivergenceError):
            journal.replayed(program=program_of(flow(step("renamed", ECHO))))

    def test_a_thousand_steps_run_side_by_side(self) -> None:
        journal = Journal(flow(*(step(f"s{index}", ECHO) for index in range(1_000))))

        assert 1_000 == len(journal.wanted)
