"""Running one handler: what comes out, whatever it does, and that nothing else is harmed."""

import asyncio
import datetime
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel, Field, field_validator

from abeyance import BranchCancelled, PauseAnswer, ToolContext, WaitToken, tool
from abeyance.engine.calls import CallFailure, CallOutput, CallPause, CallResult, run_call
from abeyance.engine.definitions import Tool
from abeyance.errors import AbeyanceError

pytestmark = pytest.mark.anyio
URL = "https://runs.example/v1/wait-tokens/Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE/complete"


class Order(BaseModel):
    order_id: str = Field(alias="orderId", pattern=r"^ord_\d+$")


class Pickup(BaseModel):
    pickup_id: str = Field(alias="pickupId", pattern=r"^pk_\d+$")


class AnyField(BaseModel):
    value: Any


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def context(*, pauses: bool = True) -> ToolContext:
    token = WaitToken("pause:key:1", URL)
    return ToolContext(run_id="run", idempotency_key="key", tool_id="t", wait_token=token if pauses else None)


def sync_and_async(body: Callable[[Any, ToolContext], Any], **options: Any) -> list[Tool]:
    """The same handler as a plain function and as an `async` one."""

    @tool(id="test.sync", pauses=True, **options)
    def plain(value: Any, ctx: ToolContext) -> Any | PauseAnswer:
        return body(value, ctx)

    @tool(id="test.async", pauses=True, **options)
    async def awaited(value: Any, ctx: ToolContext) -> Any | PauseAnswer:
        await asyncio.sleep(0)
        return body(value, ctx)

    return [plain, awaited]


async def results(
    threads: ThreadPoolExecutor, body: Callable[[Any, ToolContext], Any], *, pauses: bool = True
) -> list[CallResult]:
    return [
        await run_call(each, b"null", context(pauses=pauses), threads=threads)
        for each in sync_and_async(body)
    ]


def raiser(error: BaseException) -> Callable[[Any, ToolContext], NoReturn]:
    def raise_it(value: Any, ctx: ToolContext) -> NoReturn:
        raise error

    return raise_it


class TestOutput:
    @pytest.mark.case("A20")
    @pytest.mark.parametrize(
        ("value", "output"),
        [(None, b"null"), (False, b"false"), (0, b"0"), ("", b'""'), ([], b"[]"), ({}, b"{}"), (1.0, b"1.0")],
    )
    async def test_falsy_values_arrive_unchanged(
        self, threads: ThreadPoolExecutor, value: Any, output: bytes
    ) -> None:
        assert [CallOutput(output)] * 2 == await results(threads, lambda _, ctx: value)

    async def test_a_model_is_written_canonically_by_its_wire_names(
        self, threads: ThreadPoolExecutor
    ) -> None:
        class Both(BaseModel):
            z: int
            a: str = Field(alias="A")

        @tool(id="test.both")
        def both(order: Order) -> Both:
            return Both(z=1, A="é")

        result = await run_call(both, b'{"orderId":"ord_1"}', context(), threads=threads)

        assert CallOutput('{"A":"é","z":1}'.encode()) == result

    async def test_a_dict_is_taken_for_a_model(self, threads: ThreadPoolExecutor) -> None:
        @tool(id="test.dict")
        def as_dict(order: Order) -> Pickup:
            return {"pickupId": "pk_1"}  # type: ignore[return-value]

        result = await run_call(as_dict, b'{"orderId":"ord_1"}', context(), threads=threads)

        assert CallOutput(b'{"pickupId":"pk_1"}') == result

    @pytest.mark.parametrize(
        "value",
        [
            {"pickup_id": "x"},
            {},
            None,
            7,
            Pickup.model_construct(pickup_id="no"),
            Pickup.model_construct(pickup_id=7),  # type: ignore[arg-type]
            Pickup.model_construct(),  # type: ignore[call-arg]
            pytest.param({"pickupId": "pk_\u0661"}, marks=pytest.mark.case("D12")),
            pytest.param({"pickupId": "pk_1\n"}, marks=pytest.mark.case("D12")),
        ],
    )
    async def test_what_does_not_fit_is_refused(self, threads: ThreadPoolExecutor, value: Any) -> None:
        """Also what pydantic takes unseen: an unvalidated instance, and its own idea of a digit."""

        @tool(id="test.unfit")
        async def unfit(order: Order) -> Pickup:
            return value  # type: ignore[no-any-return]

        result = await run_call(unfit, b'{"orderId":"ord_1"}', context(), threads=threads)

        assert isinstance(result, CallFailure)
        assert "output-validation-failed" == result.code

    @pytest.mark.case("D07")
    @pytest.mark.parametrize(
        "value",
        [
            math.nan,
            math.inf,
            {"a": [1, (-math.inf,)]},
            AnyField(value={"a": [math.nan]}),
            "\ud800",
            {"\udfff": 1},
            object(),
            [[object()]],
        ],
    )
    async def test_what_json_has_no_form_for_is_refused(
        self, threads: ThreadPoolExecutor, value: Any
    ) -> None:
        for result in await results(threads, lambda _, ctx: value):
            assert isinstance(result, CallFailure)
            assert "output-validation-failed" == result.code

    @pytest.mark.parametrize(
        "value",
        [
            datetime.datetime.fromisoformat("2026-01-01T09:00:00"),
            datetime.timedelta(seconds=1.5),
            datetime.time(1, 2),
        ],
    )
    async def test_what_the_model_writes_and_reads_back_is_taken_whatever_its_format(
        self, threads: ThreadPoolExecutor, value: Any
    ) -> None:
        def handler(given: None) -> Any:
            return value

        handler.__annotations__["return"] = type(value)
        result = await run_call(tool(id="test.time")(handler), b"null", context(), threads=threads)

        assert isinstance(result, CallOutput)

    async def test_a_coroutine_from_a_plain_function_is_refused(self, threads: ThreadPoolExecutor) -> None:
        async def forgotten() -> None: ...

        @tool(id="test.forgotten")
        def handler(value: Any) -> Any:
            return forgotten()

        result = await run_call(handler, b"null", context(), threads=threads)

        assert isinstance(result, CallFailure)
        assert "async def" in result.detail


class TestInput:
    @pytest.mark.parametrize(
        "given",
        [
            b"{}",
            b"null",
            b'{"orderId":7}',
            b'{"order_id":"ord_1"}',
            pytest.param(b'{"orderId":"ord_1\\n"}', marks=pytest.mark.case("D12")),
            pytest.param('{"orderId":"ord_١٢"}'.encode(), marks=pytest.mark.case("D12")),
            pytest.param('{"orderId":"ord_1\u2028"}'.encode(), marks=pytest.mark.case("D12")),
        ],
    )
    async def test_what_does_not_fit_never_reaches_the_handler(
        self, threads: ThreadPoolExecutor, given: bytes
    ) -> None:
        @tool(id="test.never")
        def never(order: Order) -> None:
            pytest.fail("the handler ran")

        result = await run_call(never, given, context(), threads=threads)

        assert isinstance(result, CallFailure)
        assert "input-validation-failed" == result.code
        assert "ord_" not in result.detail

    async def test_a_validator_that_breaks_is_a_failed_validation(self, threads: ThreadPoolExecutor) -> None:
        class Odd(BaseModel):
            n: int

            @field_validator("n")
            @classmethod
            def _break(cls, n: int) -> int:
                raise KeyError("the secret of n")

        @tool(id="test.odd")
        async def odd(value: Odd) -> None: ...

        result = await run_call(odd, b'{"n":1}', context(), threads=threads)

        assert CallFailure("input-validation-failed", "/: KeyError") == result


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            ValueError("no van"),
            SystemExit(3),
            KeyboardInterrupt(),
            GeneratorExit(),
            BranchCancelled(),
            asyncio.CancelledError(),
            StopIteration(1),
            StopAsyncIteration(),
            Unspeakable(),
            BaseExceptionGroup("several", [KeyboardInterrupt()]),
        ],
        ids=repr,
    )
    async def test_whatever_a_handler_raises_fails_its_call_alone(
        self, threads: ThreadPoolExecutor, error: BaseException
    ) -> None:
        for result in await results(threads, raiser(error)):
            assert isinstance(result, CallFailure)
            assert "handler-error" == result.code

        assert [CallOutput(b"1")] * 2 == await results(threads, lambda _, ctx: 1)

    async def test_the_detail_is_type_and_message(self, threads: ThreadPoolExecutor) -> None:
        expected = [CallFailure("handler-error", "ValueError: no van")] * 2

        assert expected == await results(threads, raiser(ValueError("no van")))

    async def test_the_detail_is_bounded_and_can_be_stored(self, threads: ThreadPoolExecutor) -> None:
        for result in await results(threads, raiser(ValueError("\ud800" + "x" * 10_000))):
            assert isinstance(result, CallFailure)
            assert 4_000 == len(result.detail)
            result.detail.encode()

    async def test_neither_link_nor_input_nor_message_is_in_detail_or_log(
        self, threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
    ) -> None:
        def quote_link(value: Any, ctx: ToolContext) -> NoReturn:
            raise ValueError(f"{value}: could not hand on {ctx.wait_token.url}")

        with caplog.at_level(logging.DEBUG, logger="abeyance.calls"):
            for each in sync_and_async(quote_link):
                result = await run_call(each, b'"Ada"', context(), threads=threads)
                assert CallFailure("handler-error", "ValueError: Ada: could not hand on <link>") == result

        assert "wait-tokens" not in caplog.text
        shown = [record for record in caplog.records if record.levelno > logging.DEBUG]
        assert 2 == len(shown)
        for record in shown:
            assert "Ada" not in record.getMessage()
            assert "quote_link" in record.getMessage()
            assert str(vars(record)["toolId"]) in ("test.sync", "test.async")

    async def test_the_callers_context_variables_are_seen(self, threads: ThreadPoolExecutor) -> None:
        trace: ContextVar[str] = ContextVar("trace")
        trace.set("t-1")

        assert [CallOutput(b'"t-1"')] * 2 == await results(threads, lambda _, ctx: trace.get())


class TestPause:
    async def test_the_contexts_own_answer_pauses(self, threads: ThreadPoolExecutor) -> None:
        for result in await results(threads, lambda _, ctx: ctx.pause(5, "the carrier")):
            assert isinstance(result, CallPause)
            assert (5, "the carrier") == (result.timeout_ms, result.name)
            assert result.line.startswith(f"{__name__}:")

    async def test_an_output_instead_of_the_pause_is_the_result(self, threads: ThreadPoolExecutor) -> None:
        assert [CallOutput(b"7")] * 2 == await results(threads, lambda _, ctx: (ctx.pause(), 7)[1])

    @pytest.mark.parametrize("pauses", [True, False])
    async def test_an_answer_from_elsewhere_is_refused(
        self, threads: ThreadPoolExecutor, pauses: bool
    ) -> None:
        for made in (PauseAnswer(1, None, "a:1"), context().pause()):
            for result in await results(threads, lambda _, ctx, made=made: made, pauses=pauses):  # type: ignore[misc]
                assert isinstance(result, CallFailure)
                assert "invalid-pause" == result.code

    @pytest.mark.case("A16")
    @pytest.mark.parametrize("bad", [{"timeout_ms": 0}, {"timeout_ms": True}, {"name": " "}])
    @pytest.mark.parametrize("swallow", ["raise", "return", "pause", "break"])
    async def test_a_wrong_pause_fails_even_if_it_is_swallowed(
        self, threads: ThreadPoolExecutor, bad: dict[str, Any], swallow: str
    ) -> None:
        for result in await results(threads, swallower(lambda ctx: ctx.pause(**bad), swallow)):
            assert isinstance(result, CallFailure)
            assert "invalid-pause" == result.code

    @pytest.mark.parametrize("swallow", ["raise", "return", "break"])
    async def test_no_pause_here_fails_even_if_it_is_swallowed(
        self, threads: ThreadPoolExecutor, swallow: str
    ) -> None:
        for act in (lambda ctx: ctx.wait_token.url, lambda ctx: ctx.pause()):
            for result in await results(threads, swallower(act, swallow), pauses=False):
                assert isinstance(result, CallFailure)
                assert "pause-not-available" == result.code


def swallower(act: Callable[[ToolContext], Any], how: str) -> Callable[[Any, ToolContext], Any]:
    def handler(value: Any, ctx: ToolContext) -> Any:
        try:
            act(ctx)
        except AbeyanceError:
            if how == "raise":
                raise
        if how == "break":
            raise ValueError("something else")
        return ctx.pause() if how == "pause" else "fallback"

    return handler


class TestTimeLimit:
    async def test_a_thread_that_is_over_its_time_is_told_and_its_result_dropped(
        self, threads: ThreadPoolExecutor
    ) -> None:
        release, ended = threading.Event(), threading.Event()
        seen: list[bool] = []

        @tool(id="test.slow", timeout_ms=20)
        def slow(value: Any, ctx: ToolContext) -> int:
            release.wait(10)
            seen.append(ctx.cancelled)
            ended.set()
            raise SystemExit

        ctx = context()
        try:
            result = await run_call(slow, b"null", ctx, threads=threads)
        finally:
            release.set()

        assert isinstance(result, CallFailure)
        assert "handler-timeout" == result.code
        assert ended.wait(10)
        assert [True] == seen

    async def test_an_async_handler_that_is_over_its_time_is_cancelled(
        self, threads: ThreadPoolExecutor
    ) -> None:
        cancelled = asyncio.Event()

        @tool(id="test.slow", timeout_ms=20)
        async def slow(value: Any, ctx: ToolContext) -> int:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert ctx.cancelled
                cancelled.set()
            return 7

        result = await run_call(slow, b"null", context(), threads=threads)

        assert isinstance(result, CallFailure)
        assert "handler-timeout" == result.code
        await asyncio.wait_for(cancelled.wait(), 10)

    async def test_time_in_the_queue_does_not_count(self) -> None:
        release, started = threading.Event(), threading.Event()

        @tool(id="test.first")
        def first(value: Any) -> int:
            started.set()
            release.wait(10)
            return 1

        @tool(id="test.second", timeout_ms=20)
        def second(value: Any) -> int:
            return 2

        with ThreadPoolExecutor(1) as one_thread:
            holds = asyncio.create_task(run_call(first, b"null", context(), threads=one_thread))
            await asyncio.to_thread(started.wait, 10)
            queued = asyncio.create_task(run_call(second, b"null", context(), threads=one_thread))
            done, _ = await asyncio.wait({queued}, timeout=0.1)
            assert not done
            release.set()

            assert [CallOutput(b"1"), CallOutput(b"2")] == list(await asyncio.gather(holds, queued))

    async def test_a_cancelled_caller_cancels_the_handler(self, threads: ThreadPoolExecutor) -> None:
        started, cancelled = asyncio.Event(), asyncio.Event()

        @tool(id="test.slow")
        async def slow(value: Any, ctx: ToolContext) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        ctx = context()
        call = asyncio.create_task(run_call(slow, b"null", ctx, threads=threads))
        await started.wait()
        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
        assert ctx.cancelled
        await asyncio.wait_for(cancelled.wait(), 10)

    async def test_a_handler_that_blocks_the_loop_is_named(
        self, threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("abeyance.engine.calls.BLOCKED_S", 0.01)

        @tool(id="test.blocks")
        async def blocks(value: Any) -> int:
            await asyncio.sleep(0)
            time.sleep(0.05)
            return await asyncio.wait_for(asyncio.sleep(0, 7), 10)

        result = await run_call(blocks, b"null", context(), threads=threads)

        assert CallOutput(b"7") == result
        assert 1 == caplog.text.count("test.blocks blocked the loop")
