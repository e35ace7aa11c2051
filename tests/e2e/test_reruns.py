"""Calls whose process is killed, stopped or fails: what runs again, with which key, over which links.

Real kills of real processes: gunicorn starts another one each time.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.raw_http import RawResponse

pytestmark = pytest.mark.slow

FIT = b'{"pickupId":"pk_7"}'
OTHER = b'{"pickupId":"pk_8"}'


@pytest.fixture
def servers(
    store_kind: str, tmp_path: Path, free_port: int, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    """One deployment a test: whoever is killed takes everything in its process along."""
    url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
    with fleet(tmp_path / "fleet", free_port, url) as made:
        made.serve()
        yield made


def state(reply: RawResponse) -> str:
    """What a closed link says."""
    assert 409 == reply.status, reply.body
    return str(json.loads(reply.body)["error"]["details"]["state"])


def events(servers: Fleet, run_id: str, topic: str) -> list[dict[str, Any]]:
    """What the run's events of a topic say."""
    return [event["payload"] for event in servers.events(run_id) if event["kind"] == topic]


class TestKilledInTheHandler:
    @pytest.mark.case("A14")
    @pytest.mark.parametrize("deaths", [1, 2, 3, 4])
    def test_the_call_runs_again_with_the_same_key_and_every_link_answers_the_one_wait(
        self, servers: Fleet, deaths: int
    ) -> None:
        name = uuid4().hex
        servers.let_die(name, deaths)
        run = servers.start_deadly(name, {"flow": "fleet.strict"})
        servers.settled(run, "suspended")
        noted = servers.noted(name)
        links = [servers.link(name, number) for number in range(len(noted))]

        assert deaths + 1 == len(noted) == len(set(links))
        assert 1 == len({line["key"] for line in noted})
        assert deaths + 1 == len({line["process"] for line in noted})
        assert [("worker-lost", number + 2) for number in range(deaths)] == [
            (event["cause"], event["ordinal"]) for event in events(servers, run, "rerun")
        ]
        assert 200 == servers.send(links[0], FIT).status
        assert {"pickupId": "pk_7"} == servers.settled(run)["output"]
        assert {200} == {servers.send(link, FIT).status for link in links}
        assert {"completed"} == {state(servers.send(link, OTHER)) for link in links}

    @pytest.mark.case("A14")
    def test_after_the_fifth_there_is_no_sixth_and_a_held_answer_is_dropped(self, servers: Fleet) -> None:
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold")["id"]
        assert 200 == servers.send(servers.link(name), FIT).status
        servers.let_die(name, 9)
        servers.kill(servers.noted(name)[0]["process"])

        ended = servers.settled(run)

        assert ("failed", "wait-token-reruns-exhausted") == (ended["status"], ended["failure"]["code"])
        links = [servers.link(name, number) for number in range(5)]
        assert 5 == len(servers.noted(name)) == len(set(links))
        assert ["reruns-exhausted"] == [
            event["reason"] for event in events(servers, run, "wait-token-discarded")
        ]
        assert {"unused"} == {state(servers.send(link, body)) for link in links for body in (FIT, OTHER)}

    @pytest.mark.parametrize("does", ["step", "look"])
    def test_what_is_recorded_only_with_its_result_parks_its_run(self, servers: Fleet, does: str) -> None:
        """A step, a read-only call: five processes die, the sixth leaves it alone until it is told."""
        name = uuid4().hex
        servers.let_die(name, 9)
        run = servers.start_deadly(name, {"script": "fleet.fatal"}, does=does)

        waiting = servers.settled(run, "suspended")["waitingFor"]["other"]

        assert [{"what": "crash-loop", "details": {"lost": "5"}}] == waiting
        assert 5 == len(servers.noted(name))
        asked = servers.operator.shell(f"abeyance runs resume {run}", check=False)
        assert (4, True) == (asked.returncode, "abeyance runs retry" in asked.stderr)
        servers.let_die(name, 0)
        servers.operator.shell(f"abeyance runs retry {run}")
        assert "completed" == servers.settled(run)["status"]
        assert ["started", "crash-loop", "crash-loop-retried"] == servers.topics(run)[:3]
        again = servers.operator.shell(f"abeyance runs retry {run}", check=False)
        assert (1, True) == (again.returncode, "run-already-terminal" in again.stderr)


class TestStopped:
    def test_a_call_that_a_stop_gives_back_is_run_again_and_not_counted(self, servers: Fleet) -> None:
        """Its first link still answers the wait, over the stop."""
        name = uuid4().hex
        run = servers.start("fleet.strict", name, wait=False, does="hold")["id"]
        first = servers.link(name)
        assert 0 == servers.servers[0].stop()
        servers.serve(ABEYANCE_DRAIN_S="1")
        servers.until(lambda: len(servers.noted(name)) >= 2, "the call runs again")
        servers.let_go(name)
        servers.settled(run, "suspended")

        reruns = [(event["cause"], event["ordinal"]) for event in events(servers, run, "rerun")]

        assert {("drained", 1)} == set(reruns)
        assert 200 == servers.send(first, FIT).status
        assert "completed" == servers.settled(run)["status"]


Fault = Callable[[Fleet, str], None]


class TestStepRetry:
    @pytest.mark.case("A15")
    def test_after_a_failure_it_waits_on_a_new_link_and_a_held_answer_is_dropped(
        self, servers: Fleet
    ) -> None:
        """The old link is refused as unused; the key is the same."""
        name = uuid4().hex
        run = servers.start("fleet.again", name, wait=False, does="fail")["id"]
        old = servers.link(name)
        assert 200 == servers.send(old, FIT).status
        servers.let_go(name)
        waiting = servers.settled(run, "suspended")["waitingFor"]["tokens"]
        first, second = servers.noted(name)

        assert first["key"] == second["key"]
        assert first["link"] != second["link"]
        assert [f"pause:{first['key']}:2"] == [token["tokenId"] for token in waiting]
        assert ["step-retried"] == [event["reason"] for event in events(servers, run, "wait-token-discarded")]
        assert ["unused", "unused"] == [state(servers.send(old, body)) for body in (FIT, OTHER)]
        assert 200 == servers.send(servers.link(name), OTHER).status
        assert {"pickupId": "pk_8"} == servers.settled(run)["output"]

    def test_after_a_timeout_it_waits_on_a_new_link(self, servers: Fleet) -> None:
        name = uuid4().hex
        run = servers.start("fleet.again", name, wait=False, timeoutMs=500)["id"]
        old, new = servers.link(name, 0), servers.link(name, 1)

        assert "timed-out" == state(servers.send(old, FIT))
        assert old != new
        servers.settled(run)
        assert "timed-out" == state(servers.send(new, FIT))
