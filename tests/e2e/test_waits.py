"""A wait's links and deadline, changed while servers run: over sockets, four processes on PostgreSQL."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.raw_http import RawResponse

pytestmark = pytest.mark.slow

FIT = b'{"pickupId":"pk_7"}'
UNKNOWN = "/v1/wait-tokens/q8Zt3vXo1xYk0c5mJ7nW9bD2fH4sL6pRaE-gT_iUyQs/complete"
JSON = (("Content-Type", "application/json"),)
SENT = [
    (FIT, JSON),
    (b'{"pickupId":"no"}', JSON),
    (b"not json", JSON),
    (FIT, (("Content-Type", "text/plain"),)),
    (b"[" + b" " * 1_100_000 + b"]", JSON),
]
ROUNDS = 6


@pytest.fixture
def servers(
    store_kind: str, tmp_path: Path, free_port: int, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    """Servers that run."""
    url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
    with fleet(tmp_path / "fleet", free_port, url) as made:
        made.serve()
        yield made


def waiting(servers: Fleet, **order: Any) -> tuple[str, str, str]:
    """A run that waits: its id, the path of its wait, the path of its link."""
    name = uuid4().hex
    run = servers.start("fleet.strict", name, **order)
    (token,) = run["waitingFor"]["tokens"]
    return run["id"], f"/v1/runs/{run['id']}/waits/{token['tokenId']}", servers.link(name)


def ask(servers: Fleet, path: str, value: object = None) -> dict[str, object]:
    reply = servers.post(path, value)
    assert 200 == reply.status, reply.body
    return dict(json.loads(reply.body))


def anonymous(reply: RawResponse) -> tuple[int, list[tuple[str, str]], bytes]:
    """A reply without what is of this request alone: its id and its time."""
    kept = sorted(header for header in reply.headers if header[0] not in ("date", "x-request-id"))
    return reply.status, kept, re.sub(rb'"requestId":"[0-9a-f]+"', b"", reply.body)


def assert_unknown(servers: Fleet, link: str) -> None:
    """The link answers byte for byte as one that never was, in every process, whatever is sent."""
    for body, headers in SENT:
        unknown = anonymous(servers.send(UNKNOWN, body, headers))
        assert 404 == unknown[0]
        for path in (link, link.replace("/v1/wait-tokens/", "/w/").removesuffix("/complete")):
            expected = unknown
            if path.startswith("/w/"):
                expected = anonymous(servers.send("/w/" + UNKNOWN.split("/")[3], body, headers))
            for _ in range(ROUNDS):
                assert expected == anonymous(servers.send(path, body, headers))


class TestRotation:
    def test_the_old_link_is_unknown_everywhere_and_the_new_one_works(self, servers: Fleet) -> None:
        """By the command that an operator would type; the run is held in one process's memory."""
        run, path, link = waiting(servers)
        for _ in range(ROUNDS):  # processes that know the link
            assert 400 == servers.send(link, b'{"pickupId":"no"}').status
        wait = path.rpartition("/")[2]

        printed = servers.operator.shell(f"abeyance waits rotate {run} {wait}")

        fresh = re.search(r'"link": "([^"]+)"', str(printed))
        assert fresh is not None
        assert_unknown(servers, link)
        shown = servers.operator.shell(f"abeyance waits show {run} {wait}")
        assert fresh[1].split("/")[-2] not in str(shown)
        reply = servers.send(fresh[1], FIT)
        assert (200, b'{"status":"accepted"}') == (reply.status, reply.body)
        assert {"pickupId": "pk_7"} == servers.settled(run)["output"]

    def test_it_is_replayed_to_nobody(self, servers: Fleet) -> None:
        """The same key again is told that the link isn't kept, and rotates nothing."""
        _, path, _ = waiting(servers)
        key = (*JSON, ("Idempotency-Key", "once"))

        first = servers.send(f"{path}/rotate", b"{}", key, key=True)
        again = servers.send(f"{path}/rotate", b"{}", key, key=True)

        link = json.loads(first.body)["link"]
        assert (409, "idempotency-replay-withheld") == (again.status, json.loads(again.body)["error"]["code"])
        assert 200 == servers.send(link, FIT).status

    def test_what_was_tried_is_shown(self, servers: Fleet) -> None:
        """Refused and accepted ones; nothing of links that nobody knows."""
        run, path, link = waiting(servers)
        for body in (b"no", b'{"pickupId":"no"}', FIT, FIT):
            servers.send(link, body)
        servers.send(UNKNOWN, FIT)
        servers.settled(run)

        def tried() -> dict[str, int]:
            return dict(servers.read(path)["attempts"]["counts"])

        expected = {"accepted": 2, "bad-input": 1, "wait-token-output-invalid": 1}
        servers.until(lambda: tried() == expected, "the attempts are written")
        newest = servers.read(path)["attempts"]["newest"]
        assert 1 == len({each["client"] for each in newest})
        assert {256} == {each["size"] for each in newest}


class TestRevocation:
    def test_no_link_works_and_the_apps_key_answers(self, servers: Fleet) -> None:
        run, path, link = waiting(servers)

        assert 0 == ask(servers, f"{path}/revoke")["links"]

        assert_unknown(servers, link)
        wait = path.rpartition("/")[2]
        resumed = servers.post(f"/v1/runs/{run}/resume", {"waitpointId": wait, "value": {"pickupId": "pk_7"}})
        assert "completed" == json.loads(resumed.body)["status"]


class TestExtension:
    def test_a_wait_outlives_its_old_deadline_in_every_process(self, servers: Fleet) -> None:
        run, path, link = waiting(servers, timeoutMs=3_000)
        until = datetime.now(UTC) + timedelta(hours=1)

        ask(servers, f"{path}/extend", {"until": until.isoformat()})
        began = datetime.now(UTC)
        servers.until(lambda: datetime.now(UTC) > began + timedelta(seconds=4), "the old deadline has passed")

        assert "suspended" == servers.get(run)["status"]
        listed = servers.read(f"/v1/waits?run={run}")["data"]
        assert [until.isoformat(timespec="milliseconds")[:23] + "Z"] == [
            each["timesOutAt"] for each in listed
        ]
        assert 200 == servers.send(link, FIT).status
        assert "completed" == servers.settled(run)["status"]

    def test_an_earlier_deadline_ends_the_wait(self, servers: Fleet) -> None:
        run, path, _ = waiting(servers)

        ask(servers, f"{path}/extend", {"until": (datetime.now(UTC) + timedelta(seconds=2)).isoformat()})

        assert "wait-token-timed-out" == servers.settled(run)["failure"]["code"]
        assert [] == servers.read(f"/v1/waits?run={run}")["data"]
