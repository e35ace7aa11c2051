"""Grants and scopes: every route asks for its own, and shows nothing of another workspace or project."""

import json
from dataclasses import dataclass, replace
from typing import Any

import falcon.inspect
import falcon.testing
import pytest

from abeyance.engine.callers import ALL_GRANTS, EVERYBODY, GRANTS, Caller
from abeyance.engine.run_scopes import RunScope
from abeyance.http import samples
from abeyance.http.access import ACCESS, Access
from abeyance.http.authentication import Headers
from tests.api.fake_runs import RUN, FakeRuns, api

BODIES: dict[tuple[str, str], object] = {
    ("POST", "/v1/runs"): {"flow": "shop.ship-order"},
    ("POST", "/v1/runs/{id}/resume"): {"waitpointId": "pause:0199a1f2-0000-7000-8000-000000000002:1"},
    ("POST", "/v1/runs/{id}/waits/{wait}/extend"): {"until": "2026-12-01T00:00:00Z"},
    ("POST", "/v1/audit/exports"): {"all": True},
    ("POST", "/v1/keys"): {"name": "the shop", "grants": ["read"]},
    ("POST", "/v1/workspaces"): {"id": "shop"},
    ("POST", "/v1/workspaces/{workspace}/projects"): {"id": "web"},
}
ROUTES = [(method, path, access) for path, methods in ACCESS.items() for method, access in methods.items()]
ON_RUNS = [(method, path) for method, path, access in ROUTES if access.reach == "run"]
OPEN = {"/v1/wait-tokens/{token}/complete", "/w/{token}", "/health", "/ready", "/v1/openapi.json"}


@dataclass
class Door:
    """Lets everybody in as `caller`."""

    caller: Caller

    async def check(self, headers: Headers) -> Caller:
        return self.caller


def holder(*grants: str, project: str | None = None, executes: frozenset[str] | None = None) -> Caller:
    return Caller("key_1", "default", project, frozenset(grants), executes)


def ask(caller: Caller, method: str, path: str, runs: FakeRuns | None = None, **more: Any) -> Any:
    """What the API answers, and what it asked of the runs."""
    body = more.pop("body", BODIES.get((method, path), {} if method == "POST" else None))
    concrete = (
        path.replace("{id}", str(samples.RUN_ID)).replace("{record}", "0").replace("{path:path}", "0/000")
    ).replace("{wait}", "pause:0199a1f2-0000-7000-8000-000000000002:1")
    concrete = concrete.replace("{workspace}", "default").replace("{project}", "web")
    client = falcon.testing.TestClient(api(runs or FakeRuns(), auth=Door(caller)))
    return client.simulate_request(method, concrete, json=body, **more)


def needed(access: Access) -> Caller:
    """Who has exactly what the route asks for."""
    return replace(holder(*access.grants), everywhere=access.reach == "deployment")


class TestTable:
    def test_every_route_that_is_not_open_to_all_has_a_row_for_each_method(self) -> None:
        routes = {
            (route.path, method.method)
            for route in falcon.inspect.inspect_routes(api(FakeRuns()))
            for method in route.methods
            if not method.internal and method.method != "HEAD" and route.path not in OPEN
        }

        assert {(path, method) for method, path, _ in ROUTES} == routes

    def test_what_a_row_says_are_grants(self) -> None:
        assert {grant for _, _, access in ROUTES for grant in access.grants} <= set(GRANTS)


class TestGrants:
    @pytest.mark.parametrize(
        ("method", "path", "missing"),
        [(method, path, grant) for method, path, access in ROUTES for grant in access.grants],
    )
    def test_without_a_grant_that_a_route_asks_for_nothing_is_done(
        self, method: str, path: str, missing: str
    ) -> None:
        runs = FakeRuns()

        result = ask(Caller("key_1", grants=ALL_GRANTS - {missing}), method, path, runs)

        assert (403, "permission-denied") == (result.status_code, result.json["error"]["code"])
        assert {"grant": missing} == result.json["error"]["details"]
        assert [] == runs.calls

    @pytest.mark.parametrize(("method", "path", "access"), ROUTES)
    def test_with_the_grants_that_it_asks_for_and_no_others_a_route_does_its_work(
        self, method: str, path: str, access: Access
    ) -> None:
        result = ask(needed(access), method, path)

        assert result.status_code not in (401, 403), result.text

    @pytest.mark.parametrize(
        ("method", "path"),
        [(method, path) for method, path, access in ROUTES if access.reach == "deployment"],
    )
    def test_what_belongs_to_no_workspace_is_for_the_deployments_key_alone(
        self, method: str, path: str
    ) -> None:
        assert 403 == ask(Caller("key_1"), method, path).status_code
        assert 403 != ask(EVERYBODY, method, path).status_code

    def test_head_asks_for_what_get_asks_for(self) -> None:
        assert 403 == ask(holder("write"), "HEAD", "/v1/runs/{id}").status_code


class TestScopes:
    @pytest.mark.parametrize(
        ("route", "place"),
        [
            (route, RunScope(workspace, project, "shop.ship-order"))
            for route in ON_RUNS
            for workspace, project in (("other", "shop"), ("default", "billing"))
        ],
    )
    def test_another_workspaces_or_projects_run_is_not_there(
        self, route: tuple[str, str], place: RunScope
    ) -> None:
        runs = FakeRuns(place=place)

        result = ask(holder(*GRANTS, project="shop"), *route, runs)

        assert (404, "run-not-found") == (result.status_code, result.json["error"]["code"])
        assert [] == runs.calls

    @pytest.mark.parametrize(("method", "path"), ON_RUNS)
    def test_whoever_lacks_the_grant_is_not_told_whether_there_is_such_a_run(
        self, method: str, path: str
    ) -> None:
        foreign = ask(holder(), method, path, FakeRuns(place=RunScope("other", "x", "y")))

        assert (foreign.status_code, foreign.json["error"]["code"]) == (403, "permission-denied")

    @pytest.mark.parametrize(
        ("method", "path"), [(m, p) for m, p, access in ROUTES if "execute" in access.grants]
    )
    def test_execute_covers_the_definitions_of_its_list_only(self, method: str, path: str) -> None:
        other = holder(*GRANTS, executes=frozenset({"shop.refund"}))
        named = holder(*GRANTS, executes=frozenset({"shop.ship-order"}))

        assert 403 == ask(other, method, path).status_code
        assert 403 != ask(named, method, path).status_code

    def test_a_key_of_a_project_starts_runs_there_without_naming_it(self) -> None:
        runs = FakeRuns()

        ask(Caller("key_1", "acme", "shop"), "POST", "/v1/runs", runs)

        started = runs.only("start")
        assert ("acme", "shop", "key_1") == (started.workspace, started.project, started.actor)

    def test_a_key_of_a_project_starts_none_in_another(self) -> None:
        runs = FakeRuns()
        body = {"flow": "shop.ship-order", "project": "billing"}

        result = ask(holder(*GRANTS, project="shop"), "POST", "/v1/runs", runs, body=body)

        assert (403, []) == (result.status_code, runs.calls)

    def test_lists_are_asked_for_the_callers_workspace_and_project(self) -> None:
        runs = FakeRuns()

        ask(Caller("key_1", "acme", "shop"), "GET", "/v1/runs", runs)

        assert ("acme", "shop") == (runs.only("list").workspace, runs.only("list").project)


class TestWorkspaceHeader:
    def test_a_workspace_that_is_not_there_is_404(self) -> None:
        client = falcon.testing.TestClient(api(FakeRuns()))
        headers = {"Authorization": "Bearer abk_0123456789", "Abeyance-Workspace": "acme"}

        result = client.simulate_get(RUN, headers=headers)

        assert (404, "workspace-not-found") == (result.status_code, json.loads(result.text)["error"]["code"])
