"""`abeyance workspaces`, `abeyance projects`, `client.workspaces` and `client.projects`."""

import json

import pytest

from abeyance.client import Client, TenantNotActive
from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import FakeApi

MADE = {"createdAt": "2026-10-25T09:00:00.000Z", "updatedAt": "2026-10-25T09:00:00.000Z"}
WORKSPACE = {"id": "shop", "state": "active", **MADE}
PROJECT = {"id": "web", "workspaceId": "shop", "state": "active", **MADE}


class TestWorkspaces:
    def test_one_is_made_by_its_name(self, api: FakeApi, command: Command) -> None:
        api.answer("POST /v1/workspaces", WORKSPACE, 201)

        outcome = command("workspaces", "create", "shop")

        assert {"id": "shop"} == json.loads(api.sent[0].body)
        assert (0, WORKSPACE) == (outcome.code, json.loads(outcome.out))

    @pytest.mark.parametrize("verb", ["suspend", "restore", "close"])
    def test_each_change_prints_the_workspace_after_it(
        self, api: FakeApi, command: Command, verb: str
    ) -> None:
        api.answer(f"POST /v1/workspaces/shop/{verb}", WORKSPACE)

        outcome = command("workspaces", verb, "shop", "--idempotency-key=k1")

        assert (0, WORKSPACE) == (outcome.code, json.loads(outcome.out))
        assert "k1" == api.sent[0].headers["idempotency-key"]
        assert (verb != "restore") == ("cancelled" in outcome.err)

    def test_a_state_that_is_another_one_is_said(self, api: FakeApi, command: Command) -> None:
        api.refuse("POST /v1/workspaces/shop/suspend", 409, "tenant-state-conflict", {"state": "closed"})

        outcome = command("workspaces", "suspend", "shop")

        assert (1, True) == (outcome.code, "error[tenant-state-conflict]" in outcome.err)

    def test_they_are_listed(self, api: FakeApi, command: Command) -> None:
        default = {"id": "default", "state": "active"}
        page = {"data": [default, WORKSPACE], "hasMore": True, "nextCursor": "shop"}
        api.answer("GET /v1/workspaces", page)

        assert page == json.loads(command("workspaces", "list", "--limit=2").out)
        table = command("workspaces", "list", "--table")
        assert "shop" in table.out.splitlines()[-1]
        assert "--cursor=shop" in table.err


class TestProjects:
    @pytest.mark.parametrize("verb", ["suspend", "restore"])
    def test_each_change_is_of_the_workspace_that_is_named(
        self, api: FakeApi, command: Command, verb: str
    ) -> None:
        api.answer(f"POST /v1/workspaces/shop/projects/web/{verb}", PROJECT)

        outcome = command("projects", verb, "web", "--workspace=shop")

        assert (0, PROJECT) == (outcome.code, json.loads(outcome.out))

    def test_one_is_made_in_the_default_workspace_if_none_is_named(
        self, api: FakeApi, command: Command
    ) -> None:
        api.answer("POST /v1/workspaces/default/projects", PROJECT, 201)

        assert 0 == command("projects", "create", "web").code
        assert {"id": "web"} == json.loads(api.sent[0].body)

    def test_they_are_listed(self, api: FakeApi, command: Command) -> None:
        page = {"data": [PROJECT], "hasMore": False}
        api.answer("GET /v1/workspaces/shop/projects", page)

        assert page == json.loads(command("projects", "list", "--workspace=shop").out)
        assert "web" in command("projects", "list", "--workspace=shop", "--table").out


class TestClient:
    def test_every_field_arrives(self, api: FakeApi) -> None:
        api.answer("GET /v1/workspaces/shop/projects/web", PROJECT)
        api.answer("GET /v1/workspaces/shop", {"id": "shop", "state": "closing"})

        with Client(api.url, "k") as client:
            project, workspace = client.projects.get("web", workspace="shop"), client.workspaces.get("shop")

        assert ("web", "shop", "active") == (project.id, project.workspace_id, project.state)
        assert project.created_at is not None
        assert ("closing", None) == (workspace.state, workspace.created_at)

    @pytest.mark.parametrize("code", ["tenant-suspended", "tenant-closing", "project-suspended"])
    def test_a_start_where_nothing_goes_on_is_an_error_of_its_own(self, api: FakeApi, code: str) -> None:
        api.refuse("POST /v1/runs", 409, code)

        with Client(api.url, "k") as client, pytest.raises(TenantNotActive):
            client.runs.start(flow="shop.ship-order", project="web")
