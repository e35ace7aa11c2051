"""`/health`, `/ready`, `/metrics`: what the process says of itself."""

from typing import Any

import falcon.testing
import pytest

from abeyance.errors import StoreUnavailableError
from abeyance.http.app import HttpServices, create_worker_app
from abeyance.http.authentication import AuthenticationOff
from abeyance.world import SystemWorld
from tests.api.fake_runs import AUTHORIZED, LINK, TOKEN, FakeRuns, api, open_client


class TestHealth:
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_it_asks_nothing_of_the_store(self, method: str) -> None:
        runs = FakeRuns(failures={"problems": StoreUnavailableError()})

        result = open_client(runs).simulate_request(method, "/health")

        assert 200 == result.status_code
        assert [] == runs.calls


class TestRequestTarget:
    @pytest.mark.anyio
    @pytest.mark.parametrize("path", ["/health", "http://host:8000/health", "https://host/health"])
    async def test_it_may_name_the_host(self, path: str) -> None:
        """RFC 9112, 3.2.2: a server must accept the absolute form; gunicorn hands it on as the path."""
        scope = falcon.testing.create_scope(path="/") | {"path": path}
        events: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        async def send(event: Any) -> None:
            events.append(event)

        await api(FakeRuns())(scope, receive, send)

        assert 200 == events[0]["status"]


class TestReady:
    def test_without_problems(self) -> None:
        result = open_client(FakeRuns()).simulate_get("/ready")

        assert (200, {"status": "ready"}) == (result.status_code, result.json)

    def test_with_problems(self) -> None:
        result = open_client(FakeRuns(found=("the clock is 4 s off",))).simulate_get("/ready")

        assert 503 == result.status_code
        assert {"status": "not-ready", "problems": ["the clock is 4 s off"]} == result.json
        assert "1" == result.headers["Retry-After"]

    def test_with_the_store_gone(self) -> None:
        runs = FakeRuns(failures={"problems": StoreUnavailableError()})

        assert 503 == open_client(runs).simulate_get("/ready").status_code


class TestMetrics:
    def test_requests_are_counted_by_route_and_status(self) -> None:
        client = falcon.testing.TestClient(api(FakeRuns(), counters=lambda: {'runs_total{kind="flow"}': 3}))
        client.simulate_post(LINK)
        client.simulate_post(LINK)
        client.simulate_request("BREW", "/nowhere/CANARY")

        result = client.simulate_get("/metrics", headers=AUTHORIZED)

        route = "/v1/wait-tokens/:token/complete"
        lines = result.text.splitlines()
        assert f'abeyance_http_requests_total{{method="POST",route="{route}",status="200"}} 2' in lines
        assert 'abeyance_http_requests_total{method="-",route="-",status="404"} 1' in lines
        assert "abeyance_http_waiting_requests 0" in lines
        assert 'runs_total{kind="flow"} 3' in lines
        assert result.headers["Content-Type"].startswith("text/plain")
        assert TOKEN not in result.text
        assert "CANARY" not in result.text


class TestWorker:
    def test_it_answers_for_itself_and_nothing_else(self) -> None:
        services = HttpServices(runs=FakeRuns(), auth=AuthenticationOff(), world=SystemWorld())
        client = falcon.testing.TestClient(create_worker_app(services))
        paths = ["/health", "/ready", "/metrics", "/v1/runs", "/v1/openapi.json"]

        answers = [client.simulate_get(path).status_code for path in paths]

        assert [200, 200, 200, 404, 404] == answers
        assert 404 == client.simulate_post(LINK).status_code


class TestWebSockets:
    @pytest.mark.anyio
    @pytest.mark.parametrize("path", ["/health", "/v1/runs", "/v1/wait-tokens/a/b/complete", "/nowhere"])
    async def test_a_handshake_is_refused_and_reaches_no_handler(self, path: str) -> None:
        """Without a key, an error or a line in the log."""
        sent: list[dict[str, Any]] = []
        scope = {"type": "websocket", "path": path, "headers": [], "query_string": b"", "subprotocols": []}

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await api(FakeRuns())(scope, receive, send)

        assert [{"type": "websocket.close", "code": 1008}] == sent
