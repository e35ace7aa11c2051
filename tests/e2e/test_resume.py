"""Answering with the app's key: `POST /v1/runs/{id}/resume`, the client and the CLI, with every refusal.

Over real servers; on PostgreSQL four processes, so that the wait is seldom one that the asked process has.
"""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from abeyance import Client
from tests.support.fleet import KEY, Fleet
from tests.support.fleet_fixture import servers
from tests.support.raw_http import RawResponse

pytestmark = pytest.mark.slow

__all__ = ["servers"]


class Wait:
    """A run that waits, and its token."""

    def __init__(self, servers: Fleet, flow: str = "fleet.loose", **order: Any) -> None:
        self.servers = servers
        self.name = uuid4().hex
        self.run = servers.start(flow, self.name, **order)
        self.id = str(self.run["id"])
        servers.link(self.name)
        self.token = f"pause:{servers.noted(self.name)[0]['key']}:1"

    def resume(self, body: object = None, **members: object) -> RawResponse:
        """Resume with `body`, or with the token and these members."""
        sent = {"waitpointId": self.token, **members} if body is None else body
        return self.servers.post(f"/v1/runs/{self.id}/resume", sent)


def told(reply: RawResponse) -> tuple[int, str]:
    """Status and code of a refusal."""
    return reply.status, str(json.loads(reply.body)["error"]["code"])


class TestAnswer:
    @pytest.mark.case("A20")
    @pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": [None, 1.5, "\0"]}], ids=repr)
    def test_any_value_is_an_answer_and_the_reply_is_the_run_after_it(
        self, servers: Fleet, value: object
    ) -> None:
        """It resumes in the same request, whoever had the run."""
        wait = Wait(servers)

        reply = wait.resume(value=value)

        assert 200 == reply.status
        run = json.loads(reply.body)
        assert ("completed", value) == (run["status"], run["output"])
        assert "output" in run

    def test_left_out_it_is_an_empty_object(self, servers: Fleet) -> None:
        assert {} == json.loads(Wait(servers).resume().body)["output"]

    def test_the_reply_shows_the_next_wait(self, servers: Fleet) -> None:
        wait = Wait(servers, "fleet.two")

        run = json.loads(wait.resume(value=1).body)

        assert "suspended" == run["status"]
        (token,) = run["waitingFor"]["tokens"]
        assert (token["nodeId"], True) == ("second", token["tokenId"] != wait.token)

    def test_the_same_answer_again_is_taken_again_and_the_link_knows_it(self, servers: Fleet) -> None:
        wait = Wait(servers)

        replies = [wait.resume(value=[1, 2]) for _ in range(5)]

        assert {200} == {reply.status for reply in replies}
        assert 200 == servers.send(servers.link(wait.name), b"[1,2]").status
        assert 1 == servers.topics(wait.id).count("wait-token-completed")

    def test_an_early_answer_is_held(self, servers: Fleet) -> None:
        """The reply comes when there is a run to show: the handler goes on meanwhile."""
        wait = Wait(servers, does="hold", wait=False)
        servers.let_go(wait.name)

        assert 200 == wait.resume(value="early").status

        assert "early" == servers.settled(wait.id)["output"]

    def test_the_journal_says_that_a_key_answered(self, servers: Fleet) -> None:
        wait = Wait(servers)
        wait.resume(value=1)

        (taken,) = [each for each in servers.events(wait.id) if each["kind"] == "wait-token-completed"]

        assert "link" != taken["payload"]["by"]

    def test_client_and_command_line_answer_alike(self, servers: Fleet) -> None:
        """`None` is `null`; what is left out is `{}`."""
        url = f"http://127.0.0.1:{servers.port}"
        with Client(url, KEY) as client:
            null, nothing, typed = Wait(servers), Wait(servers), Wait(servers)

            assert None is client.runs.resume(null.id, waitpoint_id=null.token, value=None).output
            assert {} == client.runs.resume(nothing.id, waitpoint_id=nothing.token).output
            servers.operator.shell(f"abeyance runs resume {typed.id} --output=null")
            assert None is servers.get(typed.id)["output"]


def of_another_run(wait: Wait) -> RawResponse:
    return wait.resume({"waitpointId": Wait(wait.servers).token, "value": 1})


BODIES: dict[str, Callable[[Wait], object]] = {
    "values": lambda wait: {"waitpointId": wait.token, "values": 1},
    "output": lambda wait: {"waitpointId": wait.token, "output": {"a": 1}},
    "another case": lambda wait: {"waitpointid": wait.token, "value": 1},
    "no waitpointId": lambda wait: {"value": 1},
    "an empty one": lambda wait: {"waitpointId": "", "value": 1},
    "a number": lambda wait: {"waitpointId": 7, "value": 1},
    "no object": lambda wait: [wait.token],
}


class TestRefusals:
    @pytest.mark.case("A19")
    @pytest.mark.parametrize("body", BODIES)
    def test_a_field_that_the_body_does_not_take_is_bad_input_and_takes_nothing(
        self, servers: Fleet, body: str
    ) -> None:
        wait = Wait(servers)

        assert (400, "bad-input") == told(wait.resume(BODIES[body](wait)))

        assert "suspended" == servers.get(wait.id)["status"]

    def test_a_value_that_does_not_fit_leaves_the_wait_open(self, servers: Fleet) -> None:
        wait = Wait(servers, "fleet.strict")

        reply = wait.resume(value={"pickupId": 7})

        assert (400, "wait-token-output-invalid") == told(reply)
        assert [{"path": "/pickupId", "rule": "type"}] == json.loads(reply.body)["error"]["details"]["issues"]
        assert 200 == wait.resume(value={"pickupId": "pk_1"}).status

    def test_what_is_no_run_or_no_wait_of_it_is_not_found(self, servers: Fleet) -> None:
        wait = Wait(servers)
        nobody = servers.post(f"/v1/runs/{uuid4()}/resume", {"waitpointId": wait.token})

        assert (404, "run-not-found") == told(nobody)
        assert (404, "wait-token-not-found") == told(of_another_run(wait))
        for token in (f"{wait.token}0", wait.token.upper(), "pause:x:1", "x"):
            assert (404, "wait-token-not-found") == told(wait.resume({"waitpointId": token})), token

    @pytest.mark.case("N05")
    @pytest.mark.parametrize("kind", ["approval", "timer", "signal"])
    def test_what_is_not_a_pause_cannot_be_answered(self, servers: Fleet, kind: str) -> None:
        wait = Wait(servers)

        reply = wait.resume({"waitpointId": f"{kind}:{uuid4()}:1", "value": 1})

        assert (422, "run-resume-not-supported") == told(reply)

    @pytest.mark.parametrize("state", ["completed", "timed-out", "cancelled", "unused", "answered"])
    def test_a_closed_wait_says_its_state(self, servers: Fleet, state: str) -> None:
        """As at the link."""
        wait = closed(servers, state)

        reply = wait.resume(value={"pickupId": "pk_2"})

        assert (409, "wait-token-closed") == told(reply)
        assert {"state": state} == json.loads(reply.body)["error"]["details"]

    def test_without_a_key_nobody_answers(self, servers: Fleet) -> None:
        wait = Wait(servers)

        reply = servers.send(f"/v1/runs/{wait.id}/resume", json.dumps({"waitpointId": wait.token}).encode())

        assert (401, "unauthenticated") == told(reply)
        assert "suspended" == servers.get(wait.id)["status"]


def closed(servers: Fleet, state: str) -> Wait:
    """A wait in this state; its answer, if it has one, is `pk_1`."""
    if state == "completed":
        wait = Wait(servers, "fleet.strict")
        assert 200 == wait.resume(value={"pickupId": "pk_1"}).status
    elif state == "timed-out":
        wait = Wait(servers, "fleet.strict", timeoutMs=1)
        servers.settled(wait.id)
    elif state == "cancelled":
        wait = Wait(servers, "fleet.strict")
        servers.post(f"/v1/runs/{wait.id}/cancel")
    elif state == "unused":
        wait = Wait(servers, "fleet.strict", does="answer", wait=False)
        servers.let_go(wait.name)
        servers.settled(wait.id)
    else:
        wait = Wait(servers, "fleet.strict", does="hold", wait=False)
        assert 200 == servers.send(servers.link(wait.name), b'{"pickupId":"pk_1"}').status
    return wait
