"""`abeyance.client`: what it sends, what it returns, what it raises, and which server it finds."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

from abeyance.client import (
    AnswerInvalid,
    ApiError,
    Client,
    ConnectionFailed,
    JsonText,
    NotFound,
    RateLimited,
    RunAlreadyTerminal,
    RunNotFound,
    Unavailable,
    UnexpectedReply,
    WaitTokenClosed,
)
from abeyance.client.discovery import find_server
from abeyance.errors import AbeyanceError, Issue
from abeyance.journal.canonical import InvalidJsonError
from tests.unit.cli.fake_api import NAME, RUN_ID, TOKEN_ID, FakeApi, a_run, a_token, serving, waiting

RUN = f"/v1/runs/{RUN_ID}"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with serving() as api:
        yield api


@pytest.fixture
def client(api: FakeApi) -> Iterator[Client]:
    with Client(api.url, "t" * 32) as client:
        yield client


class TestStart:
    def test_the_request_has_what_was_given(self, api: FakeApi, client: Client) -> None:
        api.answer("POST /v1/runs", a_run(), 201)

        client.runs.start(
            script="shop.refund@0.1.0",
            input={"orderId": "ord_1001"},
            ttl_ms=5,
            labels={"order": "ord_1001"},
            participant="p-1",
            idempotency_key="k-1",
        )

        [request] = api.asked
        assert {
            "script": "shop.refund@0.1.0",
            "input": {"orderId": "ord_1001"},
            "wait": True,
            "ttlMs": 5,
            "labels": {"order": "ord_1001"},
            "participant": "p-1",
        } == json.loads(request.body)
        assert "k-1" == request.headers["idempotency-key"]
        assert f"Bearer {'t' * 32}" == request.headers["authorization"]
        assert "application/json" == request.headers["content-type"]

    def test_what_is_left_out_is_not_sent_and_null_is(self, api: FakeApi, client: Client) -> None:
        api.answer("POST /v1/runs", a_run(), 201)

        client.runs.start(flow="f")
        client.runs.start(flow="f", input=None)

        assert [b'{"flow":"f","wait":true}', b'{"flow":"f","input":null,"wait":true}'] == [
            request.body for request in api.asked
        ]

    def test_exactly_one_definition_is_named(self, api: FakeApi, client: Client) -> None:
        with pytest.raises(TypeError):
            client.runs.start()
        with pytest.raises(TypeError):
            client.runs.start(flow="f", script="s")

        assert [] == api.asked


class Order(BaseModel):
    """A model with an alias, as a tool's input is."""

    order_id: str = Field(alias="orderId")


class TestValues:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (Decimal("1.10"), "1.10"),
            (Decimal("1E+300"), "1E+300"),
            ([10**300, -1, True], f"[{10**300},-1,true]"),
            (0.1, "0.1"),
            ({"b": [Decimal("0.000")], "a": (None,)}, '{"a":[null],"b":[0.000]}'),
            (JsonText('{"n": 1.000000000000000005}'), '{"n":1.000000000000000005}'),
            (Order(orderId="ord_1"), '{"orderId":"ord_1"}'),
            ({"order": Order(orderId="é\u0000")}, '{"order":{"orderId":"é\\u0000"}}'),
        ],
    )
    def test_they_go_out_digit_for_digit(
        self, api: FakeApi, client: Client, value: object, text: str
    ) -> None:
        api.answer("POST /v1/runs", a_run(), 201)

        client.runs.start(flow="f", input=value)

        assert f'{{"flow":"f","input":{text},"wait":true}}'.encode() == api.asked[0].body

    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (float("nan"), InvalidJsonError),
            (Decimal("NaN"), InvalidJsonError),
            ("\ud800", InvalidJsonError),
            ({1: 2}, TypeError),
            ({"a": object()}, TypeError),
            (datetime(2026, 10, 24, tzinfo=UTC), TypeError),
        ],
    )
    def test_what_is_no_json_is_refused_before_it_is_sent(
        self, api: FakeApi, client: Client, value: object, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            client.runs.start(flow="f", input=value)

        assert [] == api.asked

    def test_a_value_that_holds_itself_ends(self, client: Client) -> None:
        loop: list[Any] = []
        loop.append(loop)

        with pytest.raises(InvalidJsonError):
            client.runs.start(flow="f", input=loop)

    def test_numbers_come_back_as_they_are_asked_for(self, api: FakeApi) -> None:
        body = json.dumps(a_run(output="HERE")).replace('"HERE"', f"[1.10,{10**300}]").encode()
        api.answer(f"GET {RUN}", body)

        with Client(api.url) as plain, Client(api.url, parse_float=Decimal) as exact:
            floats, decimals = plain.runs.get(RUN_ID), exact.runs.get(RUN_ID)

        assert [1.1, 10**300] == floats.output
        assert "1.10" == str(decimals.output[0])
        assert f"[1.10,{10**300}]" in floats.source

    def test_an_output_may_be_deep_and_large(self, api: FakeApi, client: Client) -> None:
        """What the server took it gives back: the limits of requests aren't those of replies."""
        deep = "[" * 100 + "]" * 100
        body = json.dumps(a_run(output="HERE")).replace('"HERE"', f"[{deep},{','.join(['1'] * 120_000)}]")
        api.answer(f"GET {RUN}", body.encode())

        assert 120_001 == len(client.runs.get(RUN_ID).output)


class TestResults:
    def test_a_run_that_waits(self, api: FakeApi, client: Client) -> None:
        timer = {"what": "timer", "dueAt": "2026-10-24T18:00:00.000Z", "details": {"a": "b"}}
        api.answer(f"GET {RUN}", waiting(tokens=[a_token()], other=[timer]) | {"soonAdded": 1})

        run = client.runs.get(RUN_ID)

        assert ("suspended", "flow", "shop.ship-order", False) == (
            run.status,
            run.kind,
            run.definition_id,
            run.ended,
        )
        assert {"order": "ord_1001"} == run.labels
        assert run.waiting_for is not None
        [token] = run.waiting_for.tokens
        assert (TOKEN_ID, NAME, "shop.request-pickup", "pickup") == (
            token.token_id,
            token.name,
            token.tool.id,
            token.node_id,
        )
        assert datetime(2026, 10, 24, 19, 30, 12, 481_000, UTC) == token.times_out_at
        assert ("timer", {"a": "b"}) == (run.waiting_for.other[0].what, run.waiting_for.other[0].details)

    def test_a_run_that_failed(self, api: FakeApi, client: Client) -> None:
        failure = {"code": "handler-error", "message": None, "nodeId": "pickup"}
        api.answer(f"GET {RUN}", a_run("failed", failure=failure, completedAt="2026-10-24T19:00:00.000Z"))

        run = client.runs.get(RUN_ID)

        assert run.failure is not None
        assert ("handler-error", None, "pickup") == (
            run.failure.code,
            run.failure.message,
            run.failure.node_id,
        )
        assert run.ended
        assert datetime(2026, 10, 24, 19, tzinfo=UTC) == run.completed_at

    def test_lists_and_their_filters(self, api: FakeApi, client: Client) -> None:
        api.answer("GET /v1/runs", {"data": [a_run()], "hasMore": True, "nextCursor": "c"})

        page = client.runs.list(status="completed", label=("order", "ord_1001"), limit=1)

        assert ([RUN_ID], True, "c") == ([run.id for run in page.data], page.has_more, page.next_cursor)
        assert "/v1/runs?status=completed&label=order%3Dord_1001&limit=1" == api.asked[0].path

    def test_a_journal(self, api: FakeApi, client: Client) -> None:
        event = {
            "sequence": 1,
            "kind": "started",
            "timestamp": "2026-10-24T17:30:12.000Z",
            "payload": {"ttl": 1},
        }
        api.answer(f"GET {RUN}/journal", {"data": [event], "hasMore": False})

        [found] = client.runs.journal(RUN_ID, content=True).data

        assert (1, "started", {"ttl": 1}, None) == (
            found.sequence,
            found.kind,
            found.payload,
            found.node_id,
        )
        assert f"{RUN}/journal?content=true" == api.asked[0].path

    def test_a_check_of_an_answer_says_nothing_or_why_not(self, api: FakeApi, client: Client) -> None:
        api.answer(f"POST {RUN}/resume", {"status": "acceptable"})
        api.refuse(f"POST {RUN}/resume", 409, "wait-token-closed", {"state": "unused"})

        client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID, value={"n": 1}, check=True)
        with pytest.raises(WaitTokenClosed):
            client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID, check=True)

        assert {"waitpointId": TOKEN_ID, "value": {"n": 1}} == json.loads(api.asked[0].body)

    def test_a_server_that_knows_no_check_is_not_taken_for_a_yes(self, api: FakeApi, client: Client) -> None:
        api.answer(f"POST {RUN}/resume", a_run())

        with pytest.raises(UnexpectedReply):
            client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID, check=True)

    def test_resume_and_cancel(self, api: FakeApi, client: Client) -> None:
        api.answer(f"POST {RUN}/resume", a_run())
        api.answer(f"POST {RUN}/cancel", a_run("cancelled"))

        client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID)
        client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID, value=None, idempotency_key="k")
        cancelled = client.runs.cancel(RUN_ID)

        assert [
            f'{{"waitpointId":"{TOKEN_ID}"}}'.encode(),
            f'{{"waitpointId":"{TOKEN_ID}","value":null}}'.encode(),
            b"",
        ] == [request.body for request in api.asked]
        assert "cancelled" == cancelled.status

    def test_an_id_stays_one_part_of_the_path(self, api: FakeApi, client: Client) -> None:
        with pytest.raises(NotFound):
            client.runs.get("a/../b?c")

        assert "/v1/runs/a%2F..%2Fb%3Fc" == api.asked[0].path


class TestErrors:
    def test_a_refusal_carries_everything(self, api: FakeApi, client: Client) -> None:
        issues = {"issues": [{"path": "/pickupAt", "rule": "required"}]}
        api.refuse(f"POST {RUN}/resume", 400, "wait-token-output-invalid", issues)

        with pytest.raises(AnswerInvalid) as caught:
            client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID, value={})

        error = caught.value
        assert isinstance(error, ApiError)
        assert isinstance(error, AbeyanceError)
        assert ("wait-token-output-invalid", 400, "req-1", issues) == (
            error.code,
            error.status,
            error.request_id,
            error.details,
        )
        assert (Issue("/pickupAt", "required"),) == error.issues

    @pytest.mark.parametrize(
        ("status", "code", "kind"),
        [
            (404, "run-not-found", RunNotFound),
            (404, "run-not-found", NotFound),
            (404, "approval-not-found", NotFound),
            (409, "wait-token-closed", WaitTokenClosed),
            (418, "something-new", ApiError),
        ],
    )
    def test_its_class_follows_from_its_code(
        self, api: FakeApi, client: Client, status: int, code: str, kind: type[ApiError]
    ) -> None:
        api.refuse(f"GET {RUN}", status, code)

        with pytest.raises(kind) as caught:
            client.runs.get(RUN_ID)

        assert (code, status) == (caught.value.code, caught.value.status)

    def test_states_have_a_name(self, api: FakeApi, client: Client) -> None:
        api.refuse(f"POST {RUN}/resume", 409, "wait-token-closed", {"state": "unused"})
        api.refuse(f"POST {RUN}/cancel", 409, "run-already-terminal", {"status": "failed"})

        with pytest.raises(WaitTokenClosed) as closed:
            client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID)
        with pytest.raises(RunAlreadyTerminal) as ended:
            client.runs.cancel(RUN_ID)

        assert ("unused", "failed") == (closed.value.state, ended.value.run_status)

    @pytest.mark.case("L04")
    @pytest.mark.parametrize(
        ("header", "seconds"), [("7", 7), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None)]
    )
    def test_retry_after_is_a_time_span_and_no_clock_is_read_for_it(
        self, api: FakeApi, client: Client, header: str, seconds: int | None
    ) -> None:
        """A date would be compared with this machine's clock, which may stand anywhere."""
        api.refuse(f"GET {RUN}", 429, "rate-limit-exceeded", None, Retry_After=header)
        api.refuse("GET /v1/runs", 503, "tenant-state-unavailable", None, Retry_After=header)

        with pytest.raises(RateLimited) as limited:
            client.runs.get(RUN_ID)
        with pytest.raises(Unavailable) as unavailable:
            client.runs.list()

        assert (seconds, seconds) == (limited.value.retry_after_s, unavailable.value.retry_after_s)

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (200, b"<html>"),
            (200, b"{}"),
            (200, b"[]"),
            (200, b'{"id":NaN}'),
            (200, b"\xff"),
            (200, b"[" * 100_000),
            (502, b'{"message":"bad gateway"}'),
            (502, b"bad gateway"),
            (302, b"{}"),
        ],
    )
    def test_a_reply_of_somebody_else_is_told_apart(
        self, api: FakeApi, client: Client, status: int, body: bytes
    ) -> None:
        api.answer(f"GET {RUN}", body, status)

        with pytest.raises(UnexpectedReply):
            client.runs.get(RUN_ID)

    def test_nobody_there(self, free_port: int) -> None:
        with Client(f"http://127.0.0.1:{free_port}") as client, pytest.raises(ConnectionFailed):
            client.runs.get(RUN_ID)

    @pytest.mark.parametrize("stays", [True, False], ids=["a server", "a server that ends"])
    def test_a_server_that_hangs_up(self, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("abeyance.client.transport.PAUSES_S", (0.0, 0.0, 0.0))
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def hang_up() -> None:
                for _ in range(4 if stays else 1):
                    connection, _ = listener.accept()
                    connection.close()
                listener.close()

            thread = threading.Thread(target=hang_up)
            thread.start()
            with Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
                with pytest.raises(ConnectionFailed, match="may have been taken"):
                    client.runs.cancel(RUN_ID)
            thread.join()

    def test_a_proxy_variable_does_not_hold_for_this_machine(
        self, api: FakeApi, monkeypatch: pytest.MonkeyPatch, free_port: int
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_port}")
        api.answer(f"GET {RUN}", a_run())

        with Client(api.url) as client:
            assert RUN_ID == client.runs.get(RUN_ID).id

    def test_the_token_is_in_no_repr(self) -> None:
        assert "t" * 32 not in repr(find_server("http://127.0.0.1:1", "t" * 32, {}))
