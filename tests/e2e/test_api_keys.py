"""API keys over real servers: revoked in one process, refused in all; scopes; and no key's text anywhere."""

import json
import socket
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.project import project, wait_until
from tests.support.raw_http import request as raw_request
from tests.support.site import API_KEY, JSON, Site, send

pytestmark = pytest.mark.slow

ROUNDS = 25
ALL = ["read", "write", "execute", "audit", "admin"]


@pytest.fixture
def database(store_kind: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres_url") if store_kind == "postgres" else None


@pytest.fixture
def site(database: str | None, tmp_path: Path) -> Iterator[Site]:
    with project(tmp_path / "site") as made:
        probes = [socket.socket() for _ in range(2)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        site = Site(made, [int(probe.getsockname()[1]) for probe in probes])
        for probe in probes:
            probe.close()
        site.set_up(database)
        yield site


def ask(
    port: int, method: str, path: str, body: object = None, *, key: str = API_KEY, **headers: str
) -> tuple[int, Any]:
    """A request on a connection of its own: status and what was answered."""
    data = b"" if body is None else json.dumps(body).encode()
    sent = [("Authorization", f"Bearer {key}"), *([JSON] if data else [])]
    sent += [(name.replace("_", "-"), value) for name, value in headers.items()]
    reply = send(port, raw_request(path, data, sent, method=method))
    return reply.status, json.loads(reply.body)


def make(port: int, name: str = "app", **fields: Any) -> Any:
    """A new key, as the deployment's key makes it."""
    status, made = ask(port, "POST", "/v1/keys", {"name": name, "grants": ALL, **fields})
    assert status == 201, made
    return made


def start(port: int, key: str, **fields: Any) -> tuple[int, Any]:
    body = {"flow": "site.asking", "input": {"orderId": "ord_1"}, **fields}
    return ask(port, "POST", "/v1/runs", body, key=key)


class TestRevocation:
    def test_a_key_that_one_process_revokes_is_refused_by_the_next_request_in_another(
        self, site: Site, database: str | None
    ) -> None:
        _, one = site.serve()
        other = site.serve()[1] if database else one
        for number in range(ROUNDS):
            made = make(one, f"app {number}", ttlMs=60_000)
            before = ask(other, "GET", "/v1/runs", key=made["key"])[0]
            revoked = ask(one, "DELETE", f"/v1/keys/{made['id']}")
            after = [ask(port, "GET", "/v1/runs", key=made["key"]) for port in (other, one)]

            assert (200, 200) == (before, revoked[0])
            assert [(401, "unauthenticated")] * 2 == [
                (status, body["error"]["code"]) for status, body in after
            ]
            assert "revokedAt" in revoked[1]

    def test_a_key_opens_nothing_once_its_time_is_over(self, site: Site) -> None:
        _, port = site.serve()
        made = make(port, ttlMs=1)

        wait_until(lambda: ask(port, "GET", "/v1/runs", key=made["key"])[0] == 401, "it has expired")


class TestAnswerWithAKey:
    @pytest.mark.case("F11")
    def test_a_key_without_the_rights_answers_nothing_in_any_warm_process(
        self, site: Site, database: str | None
    ) -> None:
        _, port = site.serve(**({"ABEYANCE_WORKERS": "4"} if database else {}))
        assert 201 == ask(port, "POST", "/v1/workspaces/default/projects", {"id": "billing"})[0]
        keys = {
            "right": make(port, grants=["read", "write", "execute"]),
            "no write": make(port, grants=["read", "execute", "admin"]),
            "no execute": make(port, grants=["read", "write", "admin"]),
            "another definition": make(port, grants=["write", "execute"], executes=["site.spilling"]),
            "another project": make(port, project="billing"),
            "revoked": make(port),
        }
        _, run = start(port, keys["right"]["key"])
        path, token = f"/v1/runs/{run['id']}", run["waitingFor"]["tokens"][0]["tokenId"]
        answer = {"waitpointId": token, "value": {"pickupId": "pk_7"}}
        for _ in range(12):  # all processes have seen the key while it was good
            assert 200 == ask(port, "GET", path, key=keys["revoked"]["key"])[0]
        ask(port, "DELETE", f"/v1/keys/{keys['revoked']['id']}")

        refused = {
            name: {ask(port, "POST", f"{path}/resume", answer, key=made["key"])[0] for _ in range(12)}
            for name, made in keys.items()
            if name != "right"
        }

        assert {
            "no write": {403},
            "no execute": {403},
            "another definition": {403},
            "another project": {404},
            "revoked": {401},
        } == refused
        assert run == ask(port, "GET", path)[1]
        assert (200, "completed") == _answered(port, keys["right"]["key"], path, answer)
        entries = ask(port, "GET", f"{path}/journal")[1]["data"]
        (completed,) = [each for each in entries if each["kind"] == "wait-token-completed"]
        assert keys["right"]["id"] in json.dumps(completed["payload"])


class TestScopes:
    def test_a_key_of_a_project_sees_that_project_alone(self, site: Site) -> None:
        _, port = site.serve()
        for project_id in ("shop", "billing"):
            made = ask(port, "POST", "/v1/workspaces/default/projects", {"id": project_id})
            assert made[0] == 201, made
        shop, billing = (make(port, name, project=name)["key"] for name in ("shop", "billing"))
        _, run = start(port, shop)
        _, foreign = start(port, billing)
        path = f"/v1/runs/{foreign['id']}"
        token = foreign["waitingFor"]["tokens"][0]["tokenId"]
        answer = {"waitpointId": token, "value": {"pickupId": "pk_7"}}

        refused = [
            ask(port, "GET", path, key=shop),
            ask(port, "GET", f"{path}/journal", key=shop),
            ask(port, "POST", f"{path}/resume", answer, key=shop),
            ask(port, "POST", f"{path}/cancel", {}, key=shop),
            ask(port, "GET", f"{path}/waits/{token}", key=shop),
        ]

        assert ("shop", "billing") == (run["projectId"], foreign["projectId"])
        assert [(404, "run-not-found")] * 5 == [(status, body["error"]["code"]) for status, body in refused]
        for key, own in ((shop, run), (billing, foreign)):
            assert [own["id"]] == [each["id"] for each in ask(port, "GET", "/v1/runs", key=key)[1]["data"]]
            records = ask(port, "GET", "/v1/audit/records", key=key)[1]["data"]
            assert {own["id"]} == {record["runId"] for record in records}
            waits = ask(port, "GET", "/v1/waits", key=key)[1]["data"]
            assert [own["id"]] == [wait["runId"] for wait in waits]
        assert 2 == len(ask(port, "GET", "/v1/runs")[1]["data"])
        assert (200, "completed") == _answered(port, billing, path, answer)

    def test_a_key_of_a_workspace_sees_that_workspace_alone(self, site: Site) -> None:
        _, port = site.serve()
        assert 201 == ask(port, "POST", "/v1/workspaces", {"id": "acme"})[0]
        _, made = ask(port, "POST", "/v1/keys", {"name": "acme's", "grants": ALL}, Abeyance_Workspace="acme")
        own, theirs = make(port)["key"], made["key"]
        _, run = start(port, own)
        _, foreign = start(port, theirs)

        for key, mine, other in ((own, run, foreign), (theirs, foreign, run)):
            assert 200 == ask(port, "GET", f"/v1/runs/{mine['id']}", key=key)[0]
            assert 404 == ask(port, "GET", f"/v1/runs/{other['id']}", key=key)[0]
            assert [mine["id"]] == [each["id"] for each in ask(port, "GET", "/v1/runs", key=key)[1]["data"]]
            assert [mine["id"]] == [
                each["runId"] for each in ask(port, "GET", "/v1/waits", key=key)[1]["data"]
            ]
            records = ask(port, "GET", "/v1/audit/records?limit=1000", key=key)[1]["data"]
            seen = {record["runId"] for record in records}
            assert (True, False) == (mine["id"] in seen, other["id"] in seen)
            assert {"api-key-created", "started"} <= {record["kind"] for record in records}
            assert "log-opened" not in {record["kind"] for record in records}
        assert "acme" == foreign["workspaceId"]
        assert 404 == ask(port, "DELETE", f"/v1/keys/{made['id']}")[0]
        assert 200 == ask(port, "DELETE", f"/v1/keys/{made['id']}", Abeyance_Workspace="acme")[0]

    def test_a_workspace_that_is_not_there_is_404(self, site: Site) -> None:
        _, port = site.serve()
        made = make(port)

        for key in (API_KEY, made["key"]):
            status, body = ask(port, "GET", "/v1/runs", key=key, Abeyance_Workspace="acme")
            assert (404, "workspace-not-found") == (status, body["error"]["code"])

    def test_a_key_makes_none_that_may_more(self, site: Site) -> None:
        _, port = site.serve()
        admin = make(port, grants=["admin", "read"])["key"]

        status, body = ask(port, "POST", "/v1/keys", {"name": "x", "grants": ["write"]}, key=admin)

        assert (403, {"grant": "write"}) == (status, body["error"]["details"])


def _answered(port: int, key: str, path: str, answer: object) -> tuple[int, str]:
    status, run = ask(port, "POST", f"{path}/resume", answer, key=key)
    return status, run.get("status")


class TestCanary:
    def test_no_keys_text_is_in_any_table_event_file_or_log(self, site: Site, database: str | None) -> None:
        server, port = site.serve()
        again = {"Idempotency_Key": "the-same"}
        body = {"name": "app", "grants": ALL}
        _, made = ask(port, "POST", "/v1/keys", body, **again)
        withheld = ask(port, "POST", "/v1/keys", body, **again)
        text = made["key"]
        status, run = start(port, text)
        ask(port, "GET", f"/v1/runs/{run['id']}/journal", key=text)
        ask(port, "GET", f"/v1/nothing-at-{text}", key=text)
        ask(port, "GET", f"/v1/runs?cursor={text}", key=text)
        listed = ask(port, "GET", "/v1/keys")[1]
        ask(port, "DELETE", f"/v1/keys/{made['id']}")
        ask(port, "GET", "/v1/runs", key=text)
        server.stop()

        secret = urlsafe_b64decode(text.removeprefix("abk_") + "=")
        assert (201, 409) == (status, withheld[0])
        assert "idempotency-replay-withheld" == withheld[1]["error"]["code"]
        assert "key" not in listed["data"][0]
        assert 1 == len(listed["data"])
        for canary in (text.encode(), text.removeprefix("abk_").encode(), secret):
            assert [] == [str(place) for place in _places_with(site, canary)]
            if database:
                assert [] == _tables_with(database, canary)


def _places_with(site: Site, canary: bytes) -> list[Path]:
    folder = site.project.folder.parent
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if canary in path.read_bytes()]


def _tables_with(url: str, canary: bytes) -> list[str]:
    """The tables that hold the bytes, as text or within a value of bytes."""
    found = []
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for (table,) in tables:
            rows = "\n".join(
                row for (row,) in connection.execute(f"SELECT t::text FROM {table} AS t".encode())
            )
            if canary.hex() in rows or canary.decode("latin-1") in rows:
                found.append(table)
    return found
