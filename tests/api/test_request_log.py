"""One line a request, and never a token, a query, a body or an error's text, whatever happens."""

import asyncio
import logging
import re
from collections.abc import Callable

import falcon.testing
import pytest
from falcon.asgi import Request

from abeyance.errors import (
    AnswerInvalidError,
    Issue,
    RateLimitedError,
    StoreUnavailableError,
    WaitTokenClosedError,
)
from abeyance.http.request_log import RequestLog, trace_id
from tests.api.fake_runs import LINK, RUN, TOKEN, FakeRuns, api, open_client

JSON = {"Content-Type": "application/json"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CANARY = "canary7f3a"
LINE = re.compile(
    r"method=(\S+) route=(\S+) status=(\d+) ms=\d+\.\d{3} request_id=([0-9a-f]{32})( trace_id=[0-9a-f]{32})?"
)


class FullGate:
    async def admit(self, request: Request) -> None:
        raise RateLimitedError(1)


def lines(caplog: pytest.LogCaptureFixture) -> list[re.Match[str]]:
    found = []
    for record in caplog.records:
        if record.name == "abeyance.http.request":
            line = LINE.fullmatch(record.getMessage())
            assert line, record.getMessage()
            found.append(line)
    return found


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


class TestRequestLine:
    def test_it_has_the_route_and_how_it_went(self, caplog: pytest.LogCaptureFixture) -> None:
        result = open_client(FakeRuns()).simulate_post(LINK)

        (line,) = lines(caplog)
        assert ("POST", "/v1/wait-tokens/:token/complete", "200") == line.groups()[:3]
        assert result.headers["X-Request-Id"] == line[4]

    def test_an_id_in_the_path_is_a_field(self, caplog: pytest.LogCaptureFixture) -> None:
        open_client(FakeRuns()).simulate_get(f"{RUN}/journal")

        assert ["/v1/runs/:id/journal"] == [line[2] for line in lines(caplog)]

    def test_two_requests_have_two_ids(self, caplog: pytest.LogCaptureFixture) -> None:
        client = open_client(FakeRuns())
        client.simulate_get(RUN)
        client.simulate_get(RUN)

        assert 2 == len({line[4] for line in lines(caplog)})

    def test_it_names_the_trace(self, caplog: pytest.LogCaptureFixture) -> None:
        headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}

        open_client(FakeRuns()).simulate_get(RUN, headers=headers)

        assert [f" trace_id={TRACE}"] == [line[5] for line in lines(caplog)]

    def test_its_fields_are_there_for_formatters(self, caplog: pytest.LogCaptureFixture) -> None:
        open_client(FakeRuns()).simulate_get("/health")

        (record,) = (record for record in caplog.records if record.name == "abeyance.http.request")
        assert isinstance(record.args, dict)
        assert ("GET", "/health", 200) == tuple(record.args[name] for name in ("method", "route", "status"))

    def test_switched_off_it_writes_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, "abeyance.http.request")

        open_client(FakeRuns()).simulate_get(RUN)

        assert [] == lines(caplog)


def ok(runs: FakeRuns) -> None:
    """Nothing fails."""


def fails(method: str, error: Exception) -> Callable[[FakeRuns], None]:
    return lambda runs: runs.failures.update({method: error})


TOO_LARGE = b'"' + CANARY.encode() * 110_000 + b'"'
INVALID = AnswerInvalidError([Issue("/a", "type")])
BUSY = StoreUnavailableError()
BUSY.__cause__ = OSError(f"{CANARY} {TOKEN}")
CRASH = RuntimeError(f"{CANARY} https://host{LINK}")
BODY = f'{{"a":"{CANARY}"}}'.encode()


class TestCanary:
    """A token, a query, a body, a referrer and the texts of errors are looked for in all that was logged."""

    @pytest.mark.case("E07")
    @pytest.mark.parametrize(
        ("status", "method", "path", "prepare", "headers", "body"),
        [
            (200, "POST", LINK, ok, JSON, BODY),
            (400, "POST", LINK, ok, JSON, BODY[:-1]),
            (400, "POST", LINK, fails("answer", INVALID), JSON, BODY),
            (404, "POST", LINK.replace(TOKEN, f"{TOKEN}x"), ok, JSON, BODY),
            (404, "POST", LINK.replace(TOKEN, f"{TOKEN}/x"), ok, JSON, BODY),
            (404, "POST", LINK.removesuffix("/complete"), ok, JSON, BODY),
            (404, "POST", f"{LINK}/", ok, JSON, BODY),
            (405, "GET", LINK, ok, JSON, b""),
            (405, f"GET{CANARY}", LINK, ok, JSON, b""),
            (409, "POST", LINK, fails("answer", WaitTokenClosedError("unused")), JSON, BODY),
            (413, "POST", LINK, ok, JSON, TOO_LARGE),
            (415, "POST", LINK, ok, {"Content-Type": f"text/{CANARY}"}, BODY),
            (429, "POST", LINK, ok, JSON, BODY),
            (500, "POST", LINK, fails("open_link", CRASH), JSON, BODY),
            (500, "POST", LINK, fails("answer", CRASH), JSON, BODY),
            (503, "POST", LINK, fails("open_link", BUSY), JSON, BODY),
            (503, "POST", LINK, fails("answer", BUSY), JSON, BODY),
            (400, "POST", "/v1/runs", ok, JSON, BODY),
            (500, "POST", f"{RUN}/resume", fails("resume", CRASH), JSON,
             f'{{"waitpointId":"{CANARY}","value":"{CANARY}"}}'.encode()),
            (404, "GET", f"/v1/runs/{CANARY}", ok, {}, b""),
            (400, "GET", "/v1/runs", ok, {}, b""),
        ],
    )  # fmt: skip
    def test_it_is_never_logged(
        self,
        caplog: pytest.LogCaptureFixture,
        status: int,
        method: str,
        path: str,
        prepare: Callable[[FakeRuns], None],
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        runs = FakeRuns()
        prepare(runs)
        client = open_client(runs, **({"gate": FullGate()} if status == 429 else {}))
        headers = {**headers, "Referer": f"https://host{LINK}", "Authorization": f"Bearer {CANARY}"}
        headers |= {"X-Request-Id": CANARY, "traceparent": CANARY, "User-Agent": CANARY}

        query = "" if path.endswith("/resume") else f"q={CANARY}"  # refused there before anything is done
        result = client.simulate_request(method, path, body=body, headers=headers, query_string=query)

        assert status == result.status_code
        assert [str(status)] == [line[3] for line in lines(caplog)]
        assert TOKEN not in caplog.text
        assert CANARY not in caplog.text
        # Also in the arguments that a formatter may print.
        assert CANARY not in repr([vars(record) for record in caplog.records if record.name != "asyncio"])


@pytest.mark.anyio
class TestClientThatHasGone:
    async def test_its_line_is_written_and_the_work_is_finished(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A server that cancels the request when the client goes must not cut an append in half."""
        begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def hold(method: str) -> None:
            if method == "answer":
                begun.set()
                await go_on.wait()
                done.set()

        runs = FakeRuns(before=hold)
        async with falcon.testing.ASGIConductor(api(runs)) as client:
            request = asyncio.ensure_future(client.simulate_post(LINK))
            await begun.wait()
            request.cancel()
            await asyncio.wait([request])
            go_on.set()
            await asyncio.wait_for(done.wait(), 5)

        assert request.cancelled()
        assert ["499"] == [line[3] for line in lines(caplog)]

    async def test_a_crash_after_it_has_gone_is_named_without_its_text(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def hold(method: str) -> None:
            if method == "answer":
                begun.set()
                await go_on.wait()

        runs = FakeRuns(before=hold, failures={"answer": CRASH})
        async with falcon.testing.ASGIConductor(api(runs)) as client:
            request = asyncio.ensure_future(client.simulate_post(LINK))
            await begun.wait()
            request.cancel()
            await asyncio.wait([request])
            go_on.set()
            for _ in range(5):
                await asyncio.sleep(0)

        assert "RuntimeError" in caplog.text
        assert CANARY not in caplog.text


class TestTraceId:
    @pytest.mark.parametrize(
        ("header", "expected"),
        [
            (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
            (f"cc-{TRACE}-00f067aa0ba902b7-01-what-comes-later", TRACE),
            (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
            (f"00-{TRACE}-{'0' * 16}-01", None),
            (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
            (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None),
            (f"00-{TRACE}-00f067aa0ba902b7", None),
            (f" 00-{TRACE}-00f067aa0ba902b7-01", None),
            ("", None),
        ],
    )
    def test_only_a_well_formed_header_names_a_trace(self, header: str, expected: str | None) -> None:
        assert expected == trace_id([(b"traceparent", header.encode())])

    def test_two_headers_name_none(self) -> None:
        header = (b"traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode())

        assert trace_id([header, header]) is None


class TestRouteNames:
    def test_the_routes_fields_are_names(self) -> None:
        log = RequestLog(world=None)  # type: ignore[arg-type] # routes need no clock

        assert "/v1/runs/:id/journal" == log.route("/v1/runs/{id}/journal")
        assert "-" == log.route(None)
