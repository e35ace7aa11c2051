"""The JSON API as one falcon application: to create it is to add its routes, nothing else happens.

Every answer has `Cache-Control: no-store` and `X-Request-Id`. A route is open to all only if its class
says so (`open_to_all`); everything else asks who is there, and asks that before the responder runs. Any
method that a route doesn't have is 405 with `Allow`, OPTIONS included; HEAD is there where GET is.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_from_bytes

import falcon
from falcon.asgi import App, Request, Response

from abeyance.engine.replies import Replies
from abeyance.engine.service import RunService
from abeyance.engine.waits import WaitService
from abeyance.errors import AbeyanceError
from abeyance.http.access import authorize
from abeyance.http.authentication import Authentication
from abeyance.http.disconnect import watch_body
from abeyance.http.errors import MethodNotAllowedError, answer_crash, answer_falcon, answer_refusal
from abeyance.http.idempotency import Idempotency
from abeyance.http.link_attempts import AttemptNotes, NoNotes
from abeyance.http.request_log import CLIENT_GONE, RequestLog
from abeyance.http.resources.keys import KeyService, key_routes
from abeyance.http.resources.links import ODD_LINKS, TEMPLATE, LinkGate, OpenGate, WaitTokenLink
from abeyance.http.resources.log import LogService, log_routes
from abeyance.http.resources.process import Health, Metrics, OpenApi, Ready
from abeyance.http.resources.records import AuditRecords, RunJournal
from abeyance.http.resources.runs import Cancel, Resume, Retry, Run, Runs
from abeyance.http.resources.tenants import TenantService, tenant_routes
from abeyance.http.resources.waiting import WaitingRequests
from abeyance.http.resources.waits import (
    ExtendWait,
    NoWaits,
    RevokeLinks,
    RotateLink,
    Wait,
    WaitsList,
)
from abeyance.world import World


def _no_counters() -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServices:
    """What the API stands on.

    `max_waiting`: how many requests may wait for a run at once in this process; `wait_s`: how long each
    may, in seconds. `gate` bounds requests to links. `counters` gives more lines for `/metrics`: a name,
    with labels if it has any, and its value. `replies` are the idempotency keys; without them, none is kept.
    `audit` is the log, `keys` are the API keys, `tenants` the workspaces and projects; without them the API
    has none.
    `notes` keeps what came of requests with links.
    """

    runs: RunService
    auth: Authentication
    world: World
    max_waiting: int = 1_000
    wait_s: float = 30.0
    gate: LinkGate = field(default_factory=OpenGate)
    counters: Callable[[], Mapping[str, float]] = _no_counters
    replies: Replies | None = None
    audit: LogService | None = None
    keys: KeyService | None = None
    tenants: TenantService | None = None
    waits: WaitService = field(default_factory=NoWaits)
    notes: AttemptNotes = field(default_factory=NoNotes)


def create_app(services: HttpServices) -> App[Request, Response]:
    """The whole API over these services."""
    app = Api(services)
    runs, waiting = services.runs, app.waiting
    idempotency = Idempotency(services.replies, waiting)
    link = WaitTokenLink(runs, waiting, services.gate, services.notes)
    app.add_routes(
        {
            TEMPLATE: link,
            "/v1/runs": Runs(runs, waiting, idempotency),
            "/v1/runs/{id}": Run(runs, waiting),
            "/v1/runs/{id}/resume": Resume(runs, waiting, idempotency),
            "/v1/runs/{id}/cancel": Cancel(runs, idempotency),
            "/v1/runs/{id}/retry": Retry(runs, idempotency),
            "/v1/runs/{id}/journal": RunJournal(runs),
            "/v1/runs/{id}/waits/{wait}": Wait(services.waits),
            "/v1/runs/{id}/waits/{wait}/extend": ExtendWait(services.waits, idempotency),
            "/v1/runs/{id}/waits/{wait}/rotate": RotateLink(services.waits, idempotency),
            "/v1/runs/{id}/waits/{wait}/revoke": RevokeLinks(services.waits, idempotency),
            "/v1/waits": WaitsList(services.waits),
            "/v1/audit/records": AuditRecords(runs),
            "/v1/openapi.json": OpenApi(),
        }
    )
    if services.audit is not None:
        app.add_routes(log_routes(services.audit))
    if services.keys is not None:
        app.add_routes(key_routes(services.keys, idempotency))
    if services.tenants is not None:
        app.add_routes(tenant_routes(services.tenants, idempotency, waiting))
    app.add_sink(link.answer_odd, ODD_LINKS)
    return app


def create_worker_app(services: HttpServices) -> App[Request, Response]:
    """What a process answers that executes runs and serves nobody: health, readiness, counters."""
    return Api(services)


class Doorkeeper:
    """Middleware: refuses a method that the route doesn't have, then asks who is there and what they may."""

    def __init__(self, auth: Authentication, runs: RunService) -> None:
        self._auth = auth
        self._runs = runs
        self._methods: dict[type, frozenset[str]] = {}

    async def process_resource(
        self, req: Request, _: Response, resource: object, params: Mapping[str, str]
    ) -> None:
        """Runs once a route is found, before its responder. Raises `MethodNotAllowedError`, and what
        `Authentication.check` and `authorize` raise.
        """
        methods = self._methods.get(type(resource)) or self._learn(type(resource))
        if req.method not in methods:
            raise MethodNotAllowedError(", ".join(sorted(methods)))
        if not getattr(resource, "open_to_all", False):
            caller = await self._auth.check(req.scope["headers"])
            req.context.caller = caller
            req.context.actor = caller.actor
            await authorize(req, caller, self._runs, params)

    def _learn(self, resource: type) -> frozenset[str]:
        methods = frozenset(name[3:].upper() for name in dir(resource) if name.startswith("on_"))
        return self._methods.setdefault(resource, methods)


class Api(App[Request, Response]):
    """falcon's application, with what every process answers, and what falcon leaves to the server: to see
    a body's end, a client's going, and headers and queries of any form.
    """

    def __init__(self, services: HttpServices) -> None:
        self._log = RequestLog(services.world)
        self.waiting = WaitingRequests(services.max_waiting, services.wait_s)
        door = Doorkeeper(services.auth, services.runs)
        super().__init__(media_type=falcon.MEDIA_JSON, middleware=[self._log, door])
        self.add_error_handler(Exception, answer_crash)
        self.add_error_handler(falcon.HTTPError, answer_falcon)
        self.add_error_handler(AbeyanceError, answer_refusal)
        self.add_routes(
            {
                "/health": Health(),
                "/ready": Ready(services.runs),
                "/metrics": Metrics(self._log, self.waiting, services.counters),
            }
        )

    def add_routes(self, routes: Mapping[str, object]) -> None:
        """Add resources by their templates."""
        for template, resource in routes.items():
            self.add_route(template, resource)

    async def __call__(  # type: ignore[override] # as falcon's own is, of the WSGI one
        self, scope: dict[str, Any], receive: Any, send: Any
    ) -> None:
        """See the ASGI specification."""
        if scope["type"] == "websocket":  # this API has none: the handshake is refused before any handler
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            scope = _readable(scope)
        try:
            await super().__call__(scope, watch_body(scope, receive), send)
        except asyncio.CancelledError:
            # Some servers cancel the request when its client goes; falcon then ends without telling anybody.
            self._log.note_gone(scope, CLIENT_GONE)
            raise


def _readable(scope: dict[str, Any]) -> dict[str, Any]:
    """The scope with headers that can be read twice, a path without a host before it (RFC 9112, 3.2.2), and a
    query that falcon can decode: it does so before any handler of errors is there.
    """
    if not isinstance(scope["headers"], list | tuple):
        scope = {**scope, "headers": list(scope["headers"])}
    if not scope["path"].startswith("/") and "://" in scope["path"]:
        _, _, rest = scope["path"].partition("://")
        scope = {**scope, "path": "/" + rest.partition("/")[2]}
    query = scope.get("query_string", b"")
    if not query.isascii():
        scope = {**scope, "query_string": quote_from_bytes(query, safe="%=&+,:;/?@!$'()*-._~").encode()}
    return scope
