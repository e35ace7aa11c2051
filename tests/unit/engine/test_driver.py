"""The driver on single operations: what each event means to a program that waits for nothing else."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from abeyance.engine.definitions import Retry
from abeyance.engine.operations import (
    CallRequest,
    Raised,
    Returned,
    SleepRequest,
    StepRequest,
    ValueRequest,
)
from abeyance.errors import (
    CallFailedError,
    ContentErasedError,
    DivergenceError,
    InvalidOperationError,
    UnknownEventError,
)
from abeyance.journal import events as e
from abeyance.journal.canonical import decode
from abeyance.journal.tenant_events import TENANT_EVENTS
from tests.unit.engine.programs import (
    AT,
    REF,
    Journal,
    Payment,
    digest_args,
    flow,
    script,
    step,
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


class TestStep:
    def test_it_is_run_by_the_executor_and_its_result_is_what_was_stored(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.step("pick", lambda a, b: (a, b), 1, "x")

        journal = Journal(script(program))
        request = journal["1"]
        assert isinstance(request, StepRequest)

        assert ("pick", (1, "x")) == (request.name, request.run())
        journal.complete("1", [1, "x"])

        assert [1, "x"] == output(journal)

    def test_a_failed_step_is_raised_with_its_name(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.step("pick", print)

        journal = Journal(script(program))

        journal.fail("1", detail="ValueError: no")

        outcome = raised(journal)
        assert ("handler-error", "ValueError: no", "1") == (outcome.code, outcome.detail, outcome.node)

    def test_an_operation_awaited_in_a_step_is_refused(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            async def inner() -> Any:
                return await ctx.call(ECHO, 1)

            await ctx.step("pick", inner)

        journal = Journal(script(program))
        request = journal["1"]
        assert isinstance(request, StepRequest)

        with pytest.raises(InvalidOperationError):
            asyncio.run(request.run())

    def test_every_argument_that_json_can_hold_has_one_digest_in_all_processes(self) -> None:
        @dataclass
        class Point:
            tags: frozenset[str]

        async def program(ctx: Any, value: Any) -> None:
            await ctx.step("s", print, {"b": {"y", "x"}, "a": Point(frozenset("cab"))}, UUID(int=1), AT)

        request = Journal(script(program))["1"]
        assert isinstance(request, StepRequest)

        text = (
            b'step\x00s\x00[{"a":{"tags":["a","b","c"]},"b":["x","y"]},'
            b'"00000000-0000-0000-0000-000000000001","2026-01-02T03:04:05Z"]'
        )
        assert digest_args(text) == request.args


class TestSleep:
    @pytest.mark.case("L01")
    @pytest.mark.parametrize("days", [24.855, 25, 60, 3650])
    def test_it_may_be_longer_than_any_timer_of_the_machine(self, days: float) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.sleep(timedelta(days=days))
            return "awake"

        journal = Journal(script(program))
        request = journal["1"]
        assert isinstance(request, SleepRequest)

        assert timedelta(days=days) == request.duration
        journal.complete("1")

        assert "awake" == output(journal)

    def test_seconds_are_taken_too(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.sleep(0.25)

        request = Journal(script(program))["1"]

        assert isinstance(request, SleepRequest)
        assert timedelta(milliseconds=250) == request.duration


class TestValue:
    @pytest.mark.case("I10")
    def test_time_ids_and_randomness_are_what_was_recorded(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            now, uuid, random = await ctx.now(), await ctx.uuid(), await ctx.random()
            return [
                now == datetime(2026, 1, 2, tzinfo=UTC),
                now.utcoffset() == timedelta(0),
                str(uuid),
                random,
            ]

        journal = Journal(script(program))

        assert ["now"] == [request.kind for request in journal.driver.wanted()]  # type: ignore[union-attr]
        journal.complete("1", "2026-01-02T00:00:00.000000Z")
        journal.complete("2", "00000000-0000-7000-8000-000000000001")
        journal.complete("3", "fffffffffffff800")

        assert [True, True, "00000000-0000-7000-8000-000000000001", 1 - 2.0**-53] == output(journal)

    def test_it_has_no_arguments_and_a_line(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.random()

        (request,) = Journal(script(program)).driver.wanted()

        line = f"{__name__}:{program.__code__.co_firstlineno + 1}"
        assert ValueRequest(op="1", kind="random", line=line) == request


class TestOperation:
    def test_it_gets_its_id_when_it_is_awaited_not_when_it_is_made(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            second, first = ctx.step("second", print), ctx.step("first", print)
            return [await first, await second]

        journal = Journal(script(program))

        assert "first" == journal["1"].name  # type: ignore[union-attr]

    def test_awaiting_it_twice_is_an_error_that_names_its_line(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            once = ctx.now()
            await once
            await once

        journal = Journal(script(program))
        journal.complete("1", "2026-01-02T00:00:00.000000Z")

        outcome = raised(journal)
        assert "handler-error" == outcome.code
        assert f"{__name__}:{program.__code__.co_firstlineno + 1}" in outcome.detail
        assert "second time" in outcome.detail

    def test_one_of_another_run_is_refused(self) -> None:
        contexts: list[Any] = []

        async def leaks(ctx: Any, value: Any) -> Any:
            contexts.append(ctx)
            await ctx.now()

        async def steals(ctx: Any, value: Any) -> Any:
            await contexts[0].now()

        first = Journal(script(leaks))

        assert "handler-error" == raised(Journal(script(steals))).code
        assert ["1"] == first.wanted


class TestFeed:
    async def program(self, ctx: Any, value: Any) -> Any:
        return await ctx.call(ECHO, 1)

    def test_what_happens_around_the_program_changes_nothing(self) -> None:
        journal = Journal(script(self.program))
        journal.start_call("1", wait="w:1")
        before = (journal.driver.wanted(), journal.driver.outcome)

        for event in (
            e.Rerun(cause="worker-lost", op="1", ordinal=2),
            e.CallPaused(line="a:1", op="1", times_out_at=AT, wait="w:1"),
            e.Suspended(approvals=0, open_waits="0" * 64, other=0, signals=0, tokens=1),
            e.CodeMismatch(code="0" * 64, op="1", recorded="a", requested="b"),
            e.CodeMatched(code="0" * 64),
        ):
            journal.add(event)

        assert before == (journal.driver.wanted(), journal.driver.outcome)

    @pytest.mark.case("I07")
    def test_every_event_of_a_run_has_a_meaning_and_no_other_is_guessed(self) -> None:
        class FutureEvent(e.Event):
            topic = "future-event"

        kinds: list[type[e.Event]] = [*e.EVENT_TYPES.values(), FutureEvent]
        refused = []
        for kind in kinds:
            driver = Journal(script(self.program)).driver
            try:
                driver.feed(2, kind.model_construct())
            except UnknownEventError:
                refused.append(kind.topic)
            except (DivergenceError, AttributeError):
                pass  # it has a meaning; here it came at the wrong time, or without its fields

        of_other_streams = {"log-opened", "key-added", "exported", "definition-recorded"}
        of_other_streams |= {"key-retired", "key-revoked"}
        of_other_streams |= {"api-key-created", "api-key-revoked"}
        of_other_streams |= {kind.topic for kind in TENANT_EVENTS}
        assert of_other_streams | {"future-event"} == set(refused)

    def test_contents_are_read_when_they_are_needed_and_once(self) -> None:
        journal = Journal(script(self.program))
        journal.start_call("1", wait="w:1")
        journal.add(e.WaitTokenAnswered(answer=REF, by="link", wait="w:1"), "early")
        journal.add(e.CallPaused(line="a:1", op="1", times_out_at=AT, wait="w:1"))

        assert [1] == journal.read

    def test_erased_content_is_no_failure_of_the_program(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.call(ECHO, 1)
            except CallFailedError as error:
                return error.detail

        journal = Journal(script(program))
        journal.fail("1")
        driver = journal.new_driver()
        driver._content = _erased_after(1, journal)

        for version, event in journal.events[:-1]:
            driver.feed(version, event)
        with pytest.raises(ContentErasedError):
            driver.feed(*journal.events[-1])
        assert None is driver.outcome

    def test_a_driver_that_met_an_error_takes_no_more(self) -> None:
        journal = Journal(script(self.program))
        with pytest.raises(DivergenceError):
            journal.add(e.TimerFired(op="1"))

        with pytest.raises(RuntimeError, match="make a new one"):
            journal.add(e.Cancelled())

    def test_retries_belong_to_the_operation(self) -> None:
        journal = Journal(flow(step("a", ECHO, retry=Retry(attempts=3))))
        request = journal["a"]

        assert isinstance(request, CallRequest)
        assert 3 == request.retry.attempts


def _erased_after(last: int, journal: Journal) -> Any:
    def content(version: int) -> bytes:
        if version > last:
            raise ContentErasedError(version)
        return journal.contents[version]

    return content
