"""One line a request: what was asked for, how it went, how long it took. And the counters of `/metrics`.

The line has the route as it was declared, `/v1/wait-tokens/:token/complete`, never the path, the query or the
body: a link's path is its credential. The method is written only if it is one that HTTP defines. The
request's id is made here, the trace's id is taken from `traceparent` (W3C Trace Context) if it is one;
nothing else of the client's gets in. The fields are also the record's `args`, for formatters that write
JSON.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from falcon import COMBINED_METHODS
from falcon.asgi import Request, Response

from abeyance.world import World

_LOG = logging.getLogger("abeyance.http.request")
_LINE = "method=%(method)s route=%(route)s status=%(status)d ms=%(ms).3f request_id=%(request_id)s%(trace)s"
_TRACEPARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_FIELD = re.compile(r"\{(\w+)\}")

# Where the request and its answer are kept in the ASGI scope until their line is written.
_EXCHANGE = "abeyance.exchange"

# What a proxy writes when the client has gone before the answer; no answer of ours has it.
CLIENT_GONE = 499


def find_header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The header's value as it was sent; `None` if it is missing or was sent twice. `name` in lower case."""
    values = [value for key, value in headers if key == name]
    return values[0] if len(values) == 1 else None


def trace_id(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The trace that the request belongs to, 32 hex digits, if it has a well-formed `traceparent`."""
    found = _TRACEPARENT.fullmatch(find_header(headers, b"traceparent") or b"")
    return found[1].decode() if found else None


class RequestLog:
    """Middleware: gives every request an id, writes its line, counts it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._routes: dict[str | None, str] = {None: "-"}
        self._counts: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)

    async def process_request(self, req: Request, resp: Response) -> None:
        """Set what every answer has."""
        req.scope[_EXCHANGE] = req, resp
        resp.context.started = self._world.monotonic()
        request_id = resp.context.request_id = self._world.random_bytes(16).hex()
        resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Request-Id", request_id)

    async def process_response(self, req: Request, resp: Response, _: object, __: bool) -> None:
        """Write the line and count."""
        self._note(req, resp, resp.status_code)

    def note_gone(self, scope: dict[str, Any], status: int) -> None:
        """Write the line of a request that was cancelled, unless it had its line already."""
        if _EXCHANGE in scope:
            req, resp = scope[_EXCHANGE]
            self._note(req, resp, status)

    def _note(self, req: Request, resp: Response, status: int) -> None:
        del req.scope[_EXCHANGE]
        seconds = self._world.monotonic() - resp.context.started
        method = req.method if req.method in COMBINED_METHODS else "-"
        route = self.route(getattr(req.context, "route", None) or req.uri_template)
        self._counts[method, route, status] += 1
        self._seconds[method, route] += seconds
        if _LOG.isEnabledFor(logging.INFO):
            trace = trace_id(req.scope["headers"])
            fields = {
                "method": method,
                "route": route,
                "status": status,
                "ms": seconds * 1000,
                "request_id": resp.context.request_id,
                "trace": f" trace_id={trace}" if trace else "",
            }
            # As `_LOG.info` does, without looking for the line of code that called it: a tenth of the cost.
            _LOG.handle(_LOG.makeRecord(_LOG.name, logging.INFO, __file__, 0, _LINE, (fields,), None))

    def route(self, template: str | None) -> str:
        """`/v1/runs/:id` for falcon's `/v1/runs/{id}`; `-` where there is no route."""
        if template not in self._routes:
            self._routes[template] = _FIELD.sub(r":\1", template or "-")
        return self._routes[template]

    def metrics(self) -> Iterator[str]:
        """The counters, in the text format of Prometheus."""
        yield "# TYPE abeyance_http_requests_total counter"
        for (method, route, status), count in sorted(self._counts.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"abeyance_http_requests_total{{{labels}}} {count}"
        yield "# TYPE abeyance_http_request_seconds_total counter"
        for (method, route), seconds in sorted(self._seconds.items()):
            labels = f'method="{method}",route="{route}"'
            yield f"abeyance_http_request_seconds_total{{{labels}}} {seconds:.6f}"
