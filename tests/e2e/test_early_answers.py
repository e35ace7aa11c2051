"""Answers that come before the run has reached its wait: held, taken, dropped; also from within a handler."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.fleet import Fleet, fleet

pytestmark = pytest.mark.slow

FIT = b'{"pickupId":"pk_7"}'
OTHER = b'{"pickupId":"pk_8"}'
SLOTS = 2


@pytest.fixture
def servers(
    store_kind: str, tmp_path: Path, free_port: int, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    """Servers with two places for requests that wait."""
    url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
    with fleet(tmp_path / "fleet", free_port, url, {"ABEYANCE_MAX_WAITING": str(SLOTS)}) as made:
        made.serve()
        yield made


def reasons(servers: Fleet, run_id: str) -> list[str]:
    """Why answers were dropped."""
    return [
        event["payload"]["reason"]
        for event in servers.events(run_id)
        if event["kind"] == "wait-token-discarded"
    ]


class TestEarlyAnswer:
    @pytest.mark.case("A01", "A03")
    def test_is_held_and_taken_when_the_run_reaches_its_wait(self, servers: Fleet) -> None:
        """It beats a deadline of one millisecond."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold", timeoutMs=1)["id"]

        assert 200 == servers.send(servers.link(name), FIT).status
        servers.let_go(name)

        assert {"pickupId": "pk_7"} == servers.settled(run)["output"]
        topics = "started call-started wait-token-answered call-paused wait-token-completed completed"
        assert topics.split() == servers.topics(run)

    @pytest.mark.case("A04")
    def test_is_dropped_when_the_tool_answers_at_once(self, servers: Fleet) -> None:
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="answer")["id"]
        assert 200 == servers.send(servers.link(name), FIT).status
        servers.let_go(name)

        assert {"pickupId": "pk_0"} == servers.settled(run)["output"]

        assert ["answered-at-once"] == reasons(servers, run)
        for body in (FIT, OTHER):
            reply = servers.send(servers.link(name), body)
            assert (409, "unused") == (reply.status, json.loads(reply.body)["error"]["details"]["state"])

    def test_is_dropped_when_the_run_ends_first(self, servers: Fleet) -> None:
        """By its time to live; the handler is still in the call."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold", ttl_ms=3_000)["id"]
        assert 200 == servers.send(servers.link(name), FIT).status

        ended = servers.settled(run)

        assert "run-expired" == ended["failure"]["code"]
        assert ["run-ended"] == reasons(servers, run)
        reply = servers.send(servers.link(name), FIT)
        assert (409, "unused") == (reply.status, json.loads(reply.body)["error"]["details"]["state"])
        servers.let_go(name)

    @pytest.mark.case("A03")
    def test_from_inside_the_handler_no_request_that_waits_holds_it_up(self, servers: Fleet) -> None:
        """Every place for requests that wait is taken; each handler answers its link before it returns."""
        blocking = [uuid4().hex for _ in range(SLOTS * (4 if servers.store_kind == "postgres" else 1))]
        with ThreadPoolExecutor(len(blocking)) as threads:
            starts = [
                threads.submit(servers.start, "fleet.strict", name, does="hold", wait=True)
                for name in blocking
            ]
            for name in blocking:
                servers.link(name)
            names = [uuid4().hex for _ in range(5)]
            runs = [servers.start("fleet.strict", name, does="self", wait=True)["id"] for name in names]
            ends = [servers.settled(run) for run in runs]
            for name in blocking:
                servers.let_go(name)
            for start in starts:
                start.result()

        took = [servers.noted(name)[1]["seconds"] for name in names]
        assert [{"pickupId": "pk_1"}] * 5 == [end["output"] for end in ends]
        assert min(took) < 0.1, took
        assert max(took) < 5, took
