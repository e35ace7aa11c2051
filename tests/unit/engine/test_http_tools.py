"""Tools that are one HTTP request: what is sent, what is taken, what is refused."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import BaseModel, Field

from abeyance import InvalidDefinitionError, ToolContext, http_tool
from abeyance.engine.calls import CallFailure, CallOutput, CallResult, run_call
from abeyance.engine.http_tools import fill

pytestmark = pytest.mark.anyio


class Order(BaseModel):
    order_id: str = Field(alias="orderId")
    express: bool = False
    note: str | None = None


class Pickup(BaseModel):
    pickup_id: str = Field(alias="pickupId")


class Carrier:
    """A server on loopback that remembers what it was asked, and answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b'{"pickupId":"pk_7"}'
        carrier = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                carrier.requests.append((self.command, self.path, headers, body))
                self.send_response(carrier.status)
                for name, value in carrier.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(carrier.body)))
                self.end_headers()
                self.wfile.write(carrier.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def carrier() -> Iterator[Carrier]:
    made = Carrier()
    serving = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield made
    made.server.shutdown()
    serving.join()
    made.server.server_close()


async def call(url: str, given: dict[str, Any], **options: Any) -> CallResult:
    asked: dict[str, Any] = {"method": "POST", "input": Order, "output": Pickup, **options}
    tool = http_tool(id="test.http", url=url, **asked)
    with ThreadPoolExecutor(1) as threads:
        context = ToolContext.for_test(idempotency_key="the-key", pauses=False)
        return await run_call(tool, json.dumps(given).encode(), context, threads=threads)


class TestRequest:
    async def test_the_input_is_posted_as_json_with_the_calls_key(self, carrier: Carrier) -> None:
        result = await call(
            carrier.url + "/orders/{orderId}", {"orderId": "ord_1"}, headers={"Authorization": "Bearer x"}
        )

        assert CallOutput(b'{"pickupId":"pk_7"}') == result
        method, path, headers, body = carrier.requests[0]
        assert ("POST", "/orders/ord_1") == (method, path)
        assert {"orderId": "ord_1", "express": False, "note": None} == json.loads(body)
        assert "the-key" == headers["idempotency-key"]
        assert "application/json" == headers["content-type"]
        assert "Bearer x" == headers["authorization"]

    async def test_get_sends_no_body(self, carrier: Carrier) -> None:
        url = carrier.url + "/orders/{orderId}?express={express}"
        await call(url, {"orderId": "ord_1", "express": True}, method="get")

        method, path, headers, body = carrier.requests[0]
        assert ("GET", "/orders/ord_1?express=true", b"") == (method, path, body)
        assert "content-type" not in headers

    @pytest.mark.parametrize(
        "value",
        ["a/../b", "?x=1", "#f", "a%2Fb", "ö\x00\r\nHost: evil", "//evil.example", "@evil", "{orderId}"],
    )
    async def test_no_value_reaches_another_resource(self, carrier: Carrier, value: str) -> None:
        await call(carrier.url + "/orders/{orderId}/pickup", {"orderId": value})

        parts = carrier.requests[0][1].split("/")
        assert ["", "orders", "pickup"] == [parts[0], parts[1], parts[3]]
        assert 4 == len(parts)

    @pytest.mark.parametrize("value", ["", ".", ".."])
    async def test_dots_and_nothing_are_no_part_of_a_path(self, carrier: Carrier, value: str) -> None:
        result = await call(carrier.url + "/orders/{orderId}", {"orderId": value})

        assert isinstance(result, CallFailure)
        assert "handler-error" == result.code
        assert [] == carrier.requests

    def test_a_part_that_is_no_text_is_refused(self) -> None:
        values: list[Any] = [None, [], {}]
        for value in values:
            with pytest.raises(ValueError, match="'a'"):
                fill("http://x/{a}", {"a": value})
        assert "http://x/1?b=1.5" == fill("http://x/{a}?b={b}", {"a": 1, "b": 1.5})


class TestResponse:
    @pytest.mark.parametrize("status", [300, 302, 400, 404, 500, 503])
    async def test_another_status_fails_with_the_status_alone(self, carrier: Carrier, status: int) -> None:
        carrier.status, carrier.body = status, b'{"pickupId":"a secret"}'
        carrier.headers = {"location": f"{carrier.url}/elsewhere"}

        result = await call(carrier.url, {"orderId": "x"})

        expected = CallFailure("handler-error", f"UnexpectedResponseError: HTTP {status}: not a success")
        assert expected == result
        assert 1 == len(carrier.requests)

    @pytest.mark.parametrize("body", [b"{}", b"null", b'{"pickupId":7}', b"[]", b""])
    async def test_what_does_not_fit_is_refused(self, carrier: Carrier, body: bytes) -> None:
        carrier.body = body

        result = await call(carrier.url, {"orderId": "x"})

        assert isinstance(result, CallFailure)
        assert "output-validation-failed" == result.code

    async def test_no_body_is_null(self, carrier: Carrier) -> None:
        carrier.status, carrier.body = 204, b""

        assert CallOutput(b"null") == await call(carrier.url, {"orderId": "x"}, output=Pickup | None)

    @pytest.mark.parametrize("body", [b"{", b"<html>", b'{"pickupId":NaN}', b"[" * 1000, b'{"a":1,"a":2}'])
    async def test_what_is_no_json_is_refused(self, carrier: Carrier, body: bytes) -> None:
        carrier.body = body

        result = await call(carrier.url, {"orderId": "x"})

        assert isinstance(result, CallFailure)
        assert "handler-error" == result.code

    async def test_the_size_is_bounded_and_nothing_is_unpacked(self, carrier: Carrier) -> None:
        carrier.body = b" " * 90 + b'{"pickupId":"pk"}'
        over = await call(carrier.url, {"orderId": "x"}, max_response_bytes=106)
        fits = await call(carrier.url, {"orderId": "x"}, max_response_bytes=107)
        carrier.body, carrier.headers = gzip.compress(b" " * 1_000_000), {"content-encoding": "gzip"}
        packed = await call(carrier.url, {"orderId": "x"})

        assert isinstance(fits, CallOutput)
        assert isinstance(over, CallFailure)
        assert "over 106 bytes" in over.detail
        assert isinstance(packed, CallFailure)
        assert "compressed" in packed.detail

    async def test_no_server_is_a_failure(self, free_port: int) -> None:
        result = await call(f"http://127.0.0.1:{free_port}", {"orderId": "x"})

        assert isinstance(result, CallFailure)
        assert "handler-error" == result.code


def refused(make: Callable[[], object]) -> InvalidDefinitionError:
    with pytest.raises(InvalidDefinitionError) as caught:
        make()
    return caught.value


class TestDefinition:
    def make(self, **options: Any) -> Any:
        asked = {
            "id": "test.http",
            "method": "POST",
            "url": "https://x.example/",
            "input": Order,
            "output": Pickup,
        }
        return http_tool(**{**asked, **options})

    def test_it_can_not_pause(self) -> None:
        error = refused(lambda: self.make(pauses=True))

        assert ("invalid-tool-definition", "test.http") == (error.code, error.definition)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"method": "TRACE"},
            {"method": None},
            {"url": "ftp://x.example/"},
            {"url": "x.example"},
            {"url": "https://{orderId}.example/"},
            {"url": "https://user:pw@x.example/"},
            {"url": "https://x.example/{order_id}"},
            {"url": "https://x.example/{orderId"},
            {"url": "https://x.example/#a"},
            {"url": "https://[/"},
            {"url": None},
            {"headers": {"Idempotency-Key": "x"}},
            {"headers": {"HOST": "x"}},
            {"headers": {"X": "a\r\nb"}},
            {"headers": {"X": "ö"}},
            {"headers": {"X": 1}},
            {"timeout_ms": 0},
            {"timeout_ms": "1"},
            {"max_response_bytes": 0},
            {"max_response_bytes": True},
            {"id": "Not an id"},
            {"output": Callable[[], int]},
        ],
        ids=str,
    )
    def test_what_is_wrong_is_refused(self, wrong: dict[str, Any]) -> None:
        refused(lambda: self.make(**wrong))

    def test_get_only_reads_unless_it_says_otherwise(self) -> None:
        assert [False, True, True] == [
            self.make(method="GET").mutating,
            self.make(method="GET", mutating=True).mutating,
            self.make().mutating,
        ]
        assert self.make().line.startswith(f"{__name__}:")
