"""A server that answers what a test tells it to and writes down what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RUN_ID = "0192f0c1-5b8e-7c47-8a51-2d8f6a1b4e07"
TOKEN_ID = "pause:6f1c2a9e-0b7d-5a51-9c3e-2d8f6a1b4e07:1"
NAME = "the carrier's pickup confirmation"
SENTENCE = (
    f'Run {RUN_ID} waits for "{NAME}" from another system, '
    "for its call to shop.request-pickup@0.1.0 in step pickup. "
    "It continues once that system answers through the link the tool handed on, or: "
    f"abeyance runs resume {RUN_ID} --output=<json>. It times out at 2026-10-24T19:30:12.481Z."
)


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeApi:
    """`replies` has for each "METHOD /path" what is answered, one after another; the last one stays."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    replies: dict[str, list[tuple[int, bytes, dict[str, str]]]] = field(default_factory=dict)

    def answer(self, route: str, body: object, status: int = 200, **headers: str) -> None:
        """Answer `route` with `body`: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.replies.setdefault(route, []).append((status, raw, headers))

    def refuse(self, route: str, status: int, code: str, details: object = None, **headers: str) -> None:
        """Answer `route` as a refusal."""
        error = {"code": code, "message": f"refused: {code}", "requestId": "req-1"}
        self.answer(route, {"error": error | ({"details": details} if details else {})}, status, **headers)

    @property
    def sent(self) -> list[Asked]:
        """The requests that change something."""
        return [request for request in self.asked if request.method != "GET"]

    def next_reply(self, route: str) -> tuple[int, bytes, dict[str, str]]:
        """What to answer now."""
        planned = self.replies.get(route)
        if not planned:
            return 404, b'{"error":{"code":"not-found","message":"nothing here","requestId":"req-0"}}', {}
        return planned.pop(0) if len(planned) > 1 else planned[0]


@contextmanager
def serving() -> Iterator[FakeApi]:
    """A fake server on loopback for as long as the block lasts."""
    api = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            api.asked.append(
                Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            )
            status, raw, headers = api.next_reply(f"{self.command} {self.path.partition('?')[0]}")
            self.send_response(status)
            for name, value in ({"Content-Type": "application/json"} | headers).items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def a_run(status: str = "completed", **more: Any) -> dict[str, Any]:
    """A run as the API answers it."""
    return {
        "id": RUN_ID,
        "status": status,
        "flowId": "shop.ship-order",
        "version": "0.1.0",
        "workspaceId": "default",
        "projectId": "default",
        "labels": {"order": "ord_1001"},
        "createdAt": "2026-10-24T17:30:12.000Z",
        "updatedAt": "2026-10-24T17:30:12.481Z",
        "expiresAt": "2026-11-23T17:30:12.000Z",
    } | more


def a_token(number: int = 1, **more: Any) -> dict[str, Any]:
    """A wait for another system's answer, as the API answers it."""
    return {
        "tokenId": f"{TOKEN_ID[:-1]}{number}",
        "name": NAME,
        "tool": {"id": "shop.request-pickup", "version": "0.1.0"},
        "nodeId": "pickup",
        "line": "shop:41",
        "createdAt": "2026-10-24T17:30:12.481Z",
        "timesOutAt": "2026-10-24T19:30:12.481Z",
    } | more


def waiting(**kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """A suspended run that waits for these."""
    nothing: dict[str, Any] = {"approvals": [], "other": [], "tokens": [], "signals": []}
    return a_run("suspended", waitingFor=nothing | kinds)
