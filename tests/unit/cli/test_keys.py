"""`abeyance keys create | list | revoke`, and `client.keys`."""

import json

import pytest

from abeyance.client import Client
from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import FakeApi

ID = "key_06ek2h0u4g5q1c8v"
TEXT = "abk_" + "x" * 43
KEY = {
    "id": ID,
    "name": "the web shop",
    "workspaceId": "default",
    "projectId": "shop",
    "grants": ["execute", "write"],
    "executes": ["shop.ship-order"],
    "createdAt": "2026-10-25T09:00:00.000Z",
    "expiresAt": "2027-01-23T09:00:00.000Z",
    "createdBy": "deployment",
}


class TestCreate:
    def test_it_sends_what_was_asked_for_and_prints_the_key_once(
        self, api: FakeApi, command: Command
    ) -> None:
        api.answer("POST /v1/keys", KEY | {"key": TEXT}, 201)

        outcome = command(
            "keys", "create", "the web shop", "--grant=write", "--grant=execute", "--project=shop",
            "--executes=shop.ship-order", "--expires=90d", "--workspace=acme",
        )  # fmt: skip

        (asked,) = api.sent
        assert {
            "name": "the web shop",
            "grants": ["write", "execute"],
            "project": "shop",
            "executes": ["shop.ship-order"],
            "ttlMs": 90 * 86_400_000,
        } == json.loads(asked.body)
        assert "acme" == asked.headers["abeyance-workspace"]
        assert TEXT == json.loads(outcome.out)["key"]
        assert TEXT not in outcome.err

    def test_a_grant_that_is_none_is_not_sent(self, api: FakeApi, command: Command) -> None:
        outcome = command("keys", "create", "x", "--grant=everything")

        assert 2 == outcome.code
        assert [] == api.asked

    def test_what_more_than_the_own_key_allows_is_said(self, api: FakeApi, command: Command) -> None:
        api.refuse("POST /v1/keys", 403, "permission-denied", {"grant": "erase"})

        outcome = command("keys", "create", "x", "--grant=erase")

        assert (1, True) == (outcome.code, "error[permission-denied]" in outcome.err)


class TestList:
    def test_the_page_is_printed(self, api: FakeApi, command: Command) -> None:
        page = {"data": [KEY], "hasMore": False}
        api.answer("GET /v1/keys", page)

        assert page == json.loads(command("keys", "list", "--limit=9").out)
        assert "/v1/keys?limit=9" == api.asked[0].path

    def test_a_table_says_what_is_no_longer_good(self, api: FakeApi, command: Command) -> None:
        revoked = KEY | {"id": "key_1", "revokedAt": "2026-11-02T16:30:00.000Z", "grants": ["read"]}
        api.answer("GET /v1/keys", {"data": [KEY, revoked], "hasMore": True, "nextCursor": "key_1"})

        outcome = command("keys", "list", "--table")

        _, first, second = outcome.out.splitlines()
        assert first.endswith("until 2027-01-23 09:00:00.000Z")
        assert "shop.ship-order" in first
        assert second.endswith("revoked 2026-11-02 16:30:00.000Z")
        assert "--cursor=key_1" in outcome.err


class TestRevoke:
    def test_it_names_the_key_by_its_id(self, api: FakeApi, command: Command) -> None:
        api.answer(f"DELETE /v1/keys/{ID}", KEY | {"revokedAt": "2026-11-02T16:30:00.000Z"})

        outcome = command("keys", "revoke", ID)

        assert "2026-11-02T16:30:00.000Z" == json.loads(outcome.out)["revokedAt"]


class TestClient:
    def test_a_key_shows_its_text_to_nobody_who_prints_it(self, api: FakeApi) -> None:
        api.answer("POST /v1/keys", KEY | {"key": TEXT}, 201)

        with Client(api.url, "token") as client:
            made = client.keys.create("the web shop", grants=["write", "execute"])

        assert TEXT == made.key
        assert TEXT not in repr(made)

    def test_the_workspace_is_sent_with_each_request(
        self, api: FakeApi, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api.answer("GET /v1/keys", {"data": [], "hasMore": False})
        monkeypatch.setenv("ABEYANCE_WORKSPACE", "acme")

        with Client(api.url, "token") as client:
            client.keys.list()
        with Client(api.url, "token", workspace="other") as client:
            client.keys.list()

        assert ["acme", "other"] == [asked.headers["abeyance-workspace"] for asked in api.asked]
