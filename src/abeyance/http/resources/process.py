"""What the process says of itself: health, readiness, counters, the description of the API."""

from collections.abc import Callable, Mapping

from falcon.asgi import Request, Response

from abeyance.engine.service import RunService
from abeyance.http import openapi
from abeyance.http.render import dump
from abeyance.http.request_log import RequestLog
from abeyance.http.resources.waiting import WaitingRequests

_HEALTHY = b'{"status":"ok"}'
_READY = b'{"status":"ready"}'


class Health:
    """The process answers. It asks nothing of the store, so that a store's trouble restarts nobody."""

    open_to_all = True

    async def on_get(self, _: Request, resp: Response) -> None:
        """Say so."""
        resp.data = _HEALTHY

    on_head = on_get


class Ready:
    """Whether requests should be sent here."""

    open_to_all = True

    def __init__(self, runs: RunService) -> None:
        self._runs = runs

    async def on_get(self, _: Request, resp: Response) -> None:
        """200, or 503 with what is wrong."""
        problems = await self._runs.problems()
        if not problems:
            resp.data = _READY
            return
        resp.status = 503
        resp.set_header("Retry-After", "1")
        resp.data = dump({"status": "not-ready", "problems": problems})

    on_head = on_get


class Metrics:
    """The counters of this process, in the text format of Prometheus."""

    def __init__(
        self, log: RequestLog, waiting: WaitingRequests, more: Callable[[], Mapping[str, float]]
    ) -> None:
        self._log = log
        self._waiting = waiting
        self._more = more

    async def on_get(self, _: Request, resp: Response) -> None:
        """All counters and gauges."""
        lines = [*self._log.metrics(), f"abeyance_http_waiting_requests {self._waiting.waiting}"]
        lines += [f"{name} {value}" for name, value in self._more().items()]
        resp.content_type = "text/plain; version=0.0.4; charset=utf-8"
        resp.data = "\n".join([*lines, ""]).encode()

    on_head = on_get


class OpenApi:
    """The description of this API, OpenAPI 3.1."""

    open_to_all = True

    async def on_get(self, _: Request, resp: Response) -> None:
        """The document."""
        resp.data = openapi.document_bytes()

    on_head = on_get
