"""`/v1/workspaces` and what is below, over a service that answers what it is told to."""

from dataclasses import dataclass
from typing import Any

import falcon.testing
import pytest

from abeyance.engine.callers import ALL_GRANTS, Caller
from abeyance.errors import ProjectSuspendedError, TenantDrainingError, TenantStateError, TenantSuspendedError
from abeyance.http.authentication import Headers
from tests.api.fake_runs import LINK, RUN, FakeRuns, FakeTenants, api, open_client

WORKSPACE = "/v1/workspaces/shop"
PROJECT = f"{WORKSPACE}/projects/web"
MADE = {"createdAt": "2026-10-25T09:00:00.000Z", "updatedAt": "2026-10-25T09:00:00.000Z"}


@dataclass
class Door:
    """Lets everybody in as `caller`."""

    caller: Caller

    async def check(self, headers: Headers) -> Caller:
        return self.caller


def ask(
    tenants: FakeTenants, method: str, path: str, body: Any = None, *, caller: Caller | None = None
) -> Any:
    more: dict[str, Any] = {"tenants": tenants}
    if caller is None:
        client = open_client(FakeRuns(), **more)
    else:
        client = falcon.testing.TestClient(api(FakeRuns(), auth=Door(caller), **more))
    return client.simulate_request(method, path, json=body)


class TestWorkspaces:
    def test_one_is_made(self) -> None:
        tenants = FakeTenants()

        answer = ask(tenants, "POST", "/v1/workspaces", {"id": "shop"})

        assert (201, {"id": "shop", "state": "active", **MADE}) == (answer.status_code, answer.json)
        assert [("create_workspace", ("shop", None))] == tenants.calls

    @pytest.mark.parametrize(
        "body", [{}, {"id": ""}, {"id": "A"}, {"id": "a" * 64}, {"id": 1}, {"id": "a\n"}]
    )
    def test_a_name_that_is_none_is_refused(self, body: object) -> None:
        answer = ask(FakeTenants(), "POST", "/v1/workspaces", body)

        assert (400, "bad-input") == (answer.status_code, answer.json["error"]["code"])

    def test_unknown_field_is_refused(self) -> None:
        answer = ask(FakeTenants(), "POST", "/v1/workspaces", {"id": "shop", "state": "closed"})

        assert "unknown-field" == answer.json["error"]["code"]

    def test_they_are_listed(self) -> None:
        tenants = FakeTenants()

        answer = ask(tenants, "GET", "/v1/workspaces?limit=3&cursor=abc")

        assert {"data": [{"id": "shop", "state": "active", **MADE}], "hasMore": False} == answer.json
        assert [("workspaces", ("shop", 3, "abc"))] == tenants.calls

    @pytest.mark.parametrize(
        ("verb", "state"), [("suspend", "suspended"), ("restore", "active"), ("close", "closing")]
    )
    @pytest.mark.parametrize("body", [None, {}])
    def test_each_change_answers_the_workspace_after_it(self, verb: str, state: str, body: object) -> None:
        answer = ask(FakeTenants(), "POST", f"{WORKSPACE}/{verb}", body)

        assert (200, state) == (answer.status_code, answer.json["state"])

    def test_whoever_comes_second_is_told_the_state(self) -> None:
        tenants = FakeTenants()
        tenants.failures["suspend_workspace"] = TenantStateError("closing")

        answer = ask(tenants, "POST", f"{WORKSPACE}/suspend")

        error = answer.json["error"]
        assert (409, "tenant-state-conflict", {"state": "closing"}) == (
            answer.status_code, error["code"], error["details"],
        )  # fmt: skip

    def test_a_restore_that_is_too_early_says_when_to_come_again(self) -> None:
        tenants = FakeTenants()
        tenants.failures["restore_workspace"] = TenantDrainingError()

        answer = ask(tenants, "POST", f"{WORKSPACE}/restore")

        assert (409, "tenant-draining", "2") == (
            answer.status_code, answer.json["error"]["code"], answer.headers["Retry-After"],
        )  # fmt: skip


class TestProjects:
    def test_one_is_made_and_shown_with_its_workspace(self) -> None:
        answer = ask(FakeTenants(), "POST", f"{WORKSPACE}/projects", {"id": "web"})

        assert (201, {"id": "web", "workspaceId": "shop", "state": "active", **MADE}) == (
            answer.status_code, answer.json,
        )  # fmt: skip

    @pytest.mark.parametrize(("verb", "state"), [("suspend", "suspended"), ("restore", "active")])
    def test_each_change_answers_the_project_after_it(self, verb: str, state: str) -> None:
        answer = ask(FakeTenants(), "POST", f"{PROJECT}/{verb}")

        assert (200, state) == (answer.status_code, answer.json["state"])


class TestScope:
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", WORKSPACE, None),
            ("GET", f"{WORKSPACE}/projects", None),
            ("POST", f"{WORKSPACE}/projects", {"id": "web"}),
            ("GET", PROJECT, None),
            ("POST", f"{PROJECT}/suspend", None),
            ("POST", f"{PROJECT}/restore", None),
        ],
    )
    def test_another_workspace_is_not_there(self, method: str, path: str, body: object) -> None:
        tenants = FakeTenants()

        answer = ask(tenants, method, path, body, caller=Caller("key_1", "bank"))

        assert (404, "workspace-not-found") == (answer.status_code, answer.json["error"]["code"])
        assert [] == tenants.calls

    @pytest.mark.parametrize(("method", "path"), [("GET", PROJECT), ("POST", f"{PROJECT}/suspend")])
    def test_another_project_is_not_there(self, method: str, path: str) -> None:
        answer = ask(FakeTenants(), method, path, caller=Caller("key_1", "shop", "app"))

        assert (404, "project-not-found") == (answer.status_code, answer.json["error"]["code"])

    @pytest.mark.parametrize("verb", ["suspend", "restore", "close"])
    def test_a_workspace_is_not_its_own_key_s_to_change(self, verb: str) -> None:
        tenants = FakeTenants()

        answer = ask(
            tenants, "POST", f"{WORKSPACE}/{verb}", caller=Caller("key_1", "shop", grants=ALL_GRANTS)
        )

        assert 403 == answer.status_code
        assert [] == tenants.calls

    def test_a_bound_key_sees_its_own_project_alone(self) -> None:
        tenants = FakeTenants()

        answer = ask(tenants, "GET", f"{WORKSPACE}/projects", caller=Caller("key_1", "shop", "web"))

        assert ["web"] == [project["id"] for project in answer.json["data"]]
        assert ["project"] == [method for method, _ in tenants.calls]


class TestOrder:
    def test_at_resume_the_project_s_refusal_comes_before_the_body_s(self) -> None:
        runs = FakeRuns(failures={"check_tenant": ProjectSuspendedError()})

        answer = open_client(runs).simulate_post(f"{RUN}/resume", body="{", content_type="text/plain")

        assert (409, "project-suspended") == (answer.status_code, answer.json["error"]["code"])

    def test_at_the_link_the_workspace_s_refusal_comes_before_the_body_s(self) -> None:
        runs = FakeRuns(failures={"confirm": TenantSuspendedError()})

        answer = open_client(runs).simulate_post(LINK, body="{", content_type="text/plain")

        assert (409, "tenant-suspended") == (answer.status_code, answer.json["error"]["code"])
