"""Letting a waiting program go: suspension is no exception, and closing runs nothing that counts."""

import asyncio
import contextlib
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from abeyance.engine.operations import Returned
from abeyance.errors import CallFailedError, InvalidOperationError
from abeyance.journal import events as e
from abeyance.journal.canonical import decode
from tests.unit.engine.programs import REF, Journal, flow, script, step, tool

BOOK = tool("shop.book")
REFUND = tool("shop.refund")


class Marker:
    """Something whose end can be seen."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The collector is off and knows of nothing, so only reference counts free anything."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


class TestSuspension:
    @pytest.mark.case("A21")
    def test_no_way_to_swallow_exceptions_notices_it(self) -> None:
        reached: list[str] = []

        async def swallows(ctx: Any) -> Any:
            try:
                return await ctx.call(BOOK, 1)
            except Exception:
                reached.append("except Exception")
            except:  # noqa: E722
                reached.append("bare except")

        async def suppresses(ctx: Any) -> Any:
            with contextlib.suppress(BaseException):
                return await ctx.call(BOOK, 2)
            reached.append("suppress")

        async def program(ctx: Any, value: Any) -> Any:
            return await ctx.gather(swallows(ctx), suppresses(ctx), ctx.call(BOOK, 3), return_exceptions=True)

        journal = Journal(script(program))
        for op in ("1.b1.1", "1.b2.1", "1.b3.1"):
            journal.start_call(op, wait=op)
        journal.add(e.Suspended(approvals=0, open_waits="0" * 64, other=0, signals=0, tokens=3))

        assert [] == reached
        assert None is journal.driver.outcome
        for op in ("1.b1.1", "1.b2.1", "1.b3.1"):
            journal.complete(op, op)
        assert isinstance(journal.driver.outcome, Returned)
        assert ["1.b1.1", "1.b2.1", "1.b3.1"] == decode(journal.driver.outcome.output)
        assert [] == reached


class TestClose:
    @pytest.mark.case("A21")
    def test_what_a_finally_awaits_is_not_asked_for(self) -> None:
        reached = []

        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.call(BOOK, 1)
            finally:
                reached.append("finally")
                await ctx.call(REFUND, 1)
                reached.append("after the refund")

        journal = Journal(script(program))
        journal.start_call("1")
        before = journal.driver.wanted()
        journal.driver.close()

        assert ["finally"] == reached
        assert before == journal.driver.wanted()
        assert () == journal.driver.refused_to_end
        assert None is journal.driver.outcome

    def test_every_operation_of_a_closed_context_raises_what_no_except_exception_takes(self) -> None:
        raised: list[str] = []

        async def program(ctx: Any, value: Any) -> Any:
            made_before = ctx.now()
            try:
                await ctx.call(BOOK, 1)
            finally:
                for operation in (
                    made_before,
                    ctx.call(BOOK, 1),
                    ctx.step("s", print),
                    ctx.sleep(1),
                    ctx.uuid(),
                    ctx.gather(ctx.now()),
                    ctx.race(ctx.now()),
                ):
                    try:
                        await operation
                    except Exception:
                        raised.append("an Exception")
                    except BaseException as error:
                        raised.append(type(error).__name__)

        Journal(script(program)).driver.close()

        assert ["ProgramClosed"] * 7 == raised

    def test_it_happens_on_the_callers_thread_inner_branches_first(self) -> None:
        ended = []

        async def part(ctx: Any, name: str) -> None:
            try:
                await ctx.call(BOOK, name)
            finally:
                ended.append((name, threading.get_ident()))

        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.gather(part(ctx, "a"), part(ctx, "b"))
            finally:
                ended.append(("program", threading.get_ident()))

        journal = Journal(script(program))
        thread = threading.Thread(target=journal.driver.close)
        thread.start()
        thread.join()

        assert [(name, thread.ident) for name in ("a", "b", "program")] == ended

    def test_it_never_raises_whatever_a_finally_does(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.call(BOOK, 1)
            finally:
                raise ValueError

        driver = Journal(script(program)).driver

        driver.close()
        driver.close()

        assert () == driver.refused_to_end

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_program_that_goes_on_for_ever_is_left_and_named(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)

        async def program(ctx: Any, value: Any) -> Any:
            while True:
                with contextlib.suppress(BaseException):
                    await ctx.call(BOOK, 1)

        driver = Journal(script(program)).driver

        driver.close()

        assert (f"{__name__}:{program.__code__.co_firstlineno + 3}",) == driver.refused_to_end

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_one_that_awaits_something_else_is_named_too(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)

        async def program(ctx: Any, value: Any) -> Any:
            try:
                await ctx.call(BOOK, 1)
            finally:
                await asyncio.sleep(0)

        driver = Journal(script(program)).driver

        driver.close()

        assert (f"{__name__}:{program.__code__.co_firstlineno + 2}",) == driver.refused_to_end

    def test_a_program_that_returns_instead_has_no_outcome(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            try:
                return await ctx.call(BOOK, 1)
            except BaseException:
                return "declined"

        driver = Journal(script(program)).driver
        driver.close()

        assert None is driver.outcome

    def test_branches_that_have_not_begun_are_closed_without_a_warning(self) -> None:
        journal = Journal(flow(step("a", BOOK), step("b", BOOK, "a")))

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            journal.driver.close()

        assert [] == caught

    def test_nothing_can_be_fed_afterwards(self) -> None:
        async def program(ctx: Any, value: Any) -> Any:
            await ctx.now()

        journal = Journal(script(program))
        journal.driver.close()

        with pytest.raises(RuntimeError):
            journal.add(e.Cancelled())


@pytest.mark.usefixtures("no_collector")
class TestReferences:
    def markers(self, **programs: Any) -> tuple[Journal, list["weakref.ref[Marker]"]]:
        alive: list[weakref.ref[Marker]] = []

        async def part(ctx: Any) -> None:
            mine = Marker()
            alive.append(weakref.ref(mine))
            try:
                await ctx.call(BOOK, 1)
            finally:
                await ctx.call(REFUND, 1)

        async def program(ctx: Any, value: Any) -> Any:
            mine = Marker()
            alive.append(weakref.ref(mine))
            await ctx.now()
            await ctx.gather(part(ctx), ctx.race(part(ctx), ctx.call(BOOK, 2)))

        journal = Journal(script(program))
        journal.complete("1", "2026-01-02T00:00:00.000000Z")
        return journal, alive

    def test_closing_frees_every_coroutine_at_once_without_the_collector(self) -> None:
        journal, alive = self.markers()
        assert [True] * 3 == [ref() is not None for ref in alive]

        journal.driver.close()

        assert [None] * 3 == [ref() for ref in alive]

    def test_dropping_the_driver_closes_it_at_once(self) -> None:
        journal, alive = self.markers()

        del journal.driver

        assert [None] * 3 == [ref() for ref in alive]

    def test_a_context_that_somebody_keeps_keeps_no_coroutine(self) -> None:
        contexts: list[Any] = []
        alive: list[weakref.ref[Marker]] = []

        async def program(ctx: Any, value: Any) -> Any:
            mine = Marker()
            contexts.append((ctx, ctx.now()))
            alive.append(weakref.ref(mine))
            await ctx.gather(ctx.call(BOOK, 1))

        journal = Journal(script(program))
        journal.driver.close()

        assert [None] == [ref() for ref in alive]
        with pytest.raises(BaseException, match="let go") as caught:
            contexts[0][1].__await__().send(None)
        assert not isinstance(caught.value, Exception)

    def test_a_program_that_ended_leaves_nothing(self) -> None:
        alive: list[weakref.ref[Marker]] = []

        async def part(ctx: Any) -> None:
            mine = Marker()
            alive.append(weakref.ref(mine))
            await ctx.call(BOOK, 1)

        async def program(ctx: Any, value: Any) -> Any:
            mine = Marker()
            alive.append(weakref.ref(mine))
            try:
                await ctx.gather(part(ctx), part(ctx))
            finally:
                raise ValueError

        journal = Journal(script(program))
        journal.start_call("1.b2.1")
        journal.fail("1.b1.1")
        journal.complete("1")

        assert [None] * 3 == [ref() for ref in alive]

    def test_a_lost_branch_leaves_nothing_while_the_run_goes_on(self) -> None:
        alive: list[weakref.ref[Marker]] = []

        async def part(ctx: Any) -> None:
            mine = Marker()
            alive.append(weakref.ref(mine))
            await ctx.call(BOOK, 1)

        async def program(ctx: Any, value: Any) -> Any:
            for _ in range(2):
                await ctx.race(part(ctx), ctx.call(BOOK, 2))

        journal = Journal(script(program))
        journal.start_call("1.b1.1")
        journal.complete("1.b2.1")
        journal.complete("1")

        assert [True, False] == [ref() is None for ref in alive]

    @pytest.mark.parametrize("ending", ["is closed", "is dropped"])
    def test_an_error_that_somebody_keeps_holds_no_driver_and_no_caller(self, ending: str) -> None:
        kept: list[BaseException] = []
        alive: list[weakref.ref[Any]] = []

        async def part(ctx: Any) -> None:
            try:
                await ctx.call(BOOK, 1)
            finally:
                raise ValueError

        async def program(ctx: Any, value: Any) -> Any:
            mine = Marker()
            alive.append(weakref.ref(mine))
            kept.extend(await ctx.gather(part(ctx), return_exceptions=True))
            try:
                await ctx.call(BOOK, 2)
            except BaseException as closed:
                kept.append(closed)
                raise

        def advance() -> Journal:
            mine = Marker()
            alive.append(weakref.ref(mine))
            journal = Journal(script(program))
            journal.fail("1.b1.1")
            alive.append(weakref.ref(journal.driver))
            if ending == "is closed":
                journal.driver.close()
            return journal

        journal = advance()
        del journal.driver

        assert [ValueError, GeneratorExit] == [type(error) for error in kept]
        assert isinstance(kept[0].__context__, CallFailedError)
        del kept[1]  # it holds the program's own frame, which raised it
        assert [None] * 3 == [ref() for ref in alive]

    def test_a_program_that_keeps_an_error_is_closed_where_its_driver_is_dropped(self) -> None:
        closed: list[str] = []

        async def part(ctx: Any) -> None:
            await ctx.call(BOOK, 1)

        async def program(ctx: Any, value: Any) -> Any:
            errors = await ctx.gather(part(ctx), return_exceptions=True)
            try:
                await ctx.call(BOOK, 2)
            finally:
                closed.extend(type(error).__name__ for error in errors)

        journal = Journal(script(program))
        journal.fail("1.b1.1")

        del journal.driver

        assert ["StoredCallFailedError"] == closed

    def test_an_idle_programs_operations_refuse_other_code(self) -> None:
        contexts: list[Any] = []

        async def program(ctx: Any, value: Any) -> Any:
            contexts.append(ctx)
            await ctx.call(BOOK, 1)

        journal = Journal(script(program))

        with pytest.raises(InvalidOperationError):
            contexts[0].call(BOOK, 2).__await__().send(None)
        assert ["1"] == journal.wanted
        journal.start_call("1")
        journal.add(e.CallCompleted(op="1", output=REF), 1)
