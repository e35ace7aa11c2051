"""Workspaces and projects over real sockets: on PostgreSQL with four server processes, on SQLite with one."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from tests.support.fleet import JSON, KEY, Fleet
from tests.support.fleet_fixture import servers
from tests.support.raw_http import RawResponse

pytestmark = pytest.mark.slow

__all__ = ["servers"]

FIT = b'{"pickupId":"pk_7"}'
# More requests than there are processes: each is likely to be asked.
ASKED = 8


class Tenant:
    """A workspace with the project `web`, of its own for each test."""

    def __init__(self, servers: Fleet, *, project: str = "default") -> None:
        self.servers = servers
        self.name = f"w{uuid4().hex}"
        self.project = project
        self.path = f"/v1/workspaces/{self.name}"
        assert 201 == servers.post("/v1/workspaces", {"id": self.name}).status
        assert 201 == servers.post(f"{self.path}/projects", {"id": "web"}).status

    def ask(self, method: str, path: str, body: bytes = b"", **more: Any) -> RawResponse:
        """A request that works in this workspace."""
        headers = (*JSON, ("Authorization", f"Bearer {KEY}"), ("Abeyance-Workspace", self.name))
        return self.servers.send(path, body, headers, method=method, **more)

    def begin(self, name: str, *, wait: bool = True, **order: Any) -> RawResponse:
        """Start a run here."""
        body = {
            "flow": "fleet.strict",
            "input": {"name": name, **order},
            "wait": wait,
            "project": self.project,
            "labels": {"name": name},
        }
        return self.ask("POST", "/v1/runs", json.dumps(body).encode())

    def waiting(self) -> tuple[str, str, str]:
        """A run that waits: its id, its link and its token's id."""
        name = uuid4().hex
        run = json.loads(self.begin(name).body)
        return run["id"], self.servers.link(name), run["waitingFor"]["tokens"][0]["tokenId"]

    def change(self, verb: str) -> RawResponse:
        """Change the state: of the project, if the runs are in one."""
        below = "" if self.project == "default" else f"/projects/{self.project}"
        return self.servers.post(f"{self.path}{below}/{verb}")

    def run(self, run_id: str) -> Any:
        """The run as it is."""
        reply = self.ask("GET", f"/v1/runs/{run_id}")
        return json.loads(reply.body)

    def ended(self, run_id: str, *statuses: str) -> Any:
        """The run once it has one of these statuses (default: it is cancelled)."""
        wanted = statuses or ("cancelled",)
        self.servers.until(lambda: self.run(run_id)["status"] in wanted, f"the run is {wanted}")
        return self.run(run_id)


def code(reply: RawResponse) -> tuple[int, str]:
    return reply.status, str(json.loads(reply.body)["error"]["code"])


CASES = [
    ("default", "suspend", "tenant-suspended"),
    ("default", "close", "tenant-closing"),
    ("web", "suspend", "project-suspended"),
]


class TestRefusals:
    @pytest.mark.parametrize(("project", "verb", "refusal"), CASES)
    def test_at_the_link_at_resume_and_at_a_start_every_process_says_why(
        self, servers: Fleet, project: str, verb: str, refusal: str
    ) -> None:
        """From the reply to the suspension on, whatever the body is."""
        tenant = Tenant(servers, project=project)
        run_id, link, wait = tenant.waiting()

        assert 200 == tenant.change(verb).status
        told = set()
        for _ in range(ASKED):
            told.add(code(servers.send(link, FIT)))
            told.add(code(servers.send(link, b"{", (("Content-Type", "text/plain"),))))
            told.add(code(servers.send(f"{link}?check=true", FIT)))
            answer = json.dumps({"waitpointId": wait, "value": {"pickupId": "pk_7"}}).encode()
            told.add(code(tenant.ask("POST", f"/v1/runs/{run_id}/resume", answer)))
            told.add(code(tenant.ask("POST", f"/v1/runs/{run_id}/resume", b"{")))
            told.add(code(tenant.begin(uuid4().hex, wait=False)))

        assert {(409, refusal)} == told
        tenant.ended(run_id)
        assert (409, refusal) == code(servers.send(link, FIT))

    def test_after_a_restore_the_link_says_that_the_wait_is_cancelled(self, servers: Fleet) -> None:
        tenant = Tenant(servers)
        run_id, link, _ = tenant.waiting()
        tenant.change("suspend")

        assert (200, "active") == (
            (restored := tenant.change("restore")).status, json.loads(restored.body)["state"],
        )  # fmt: skip

        for _ in range(ASKED):
            reply = json.loads(servers.send(link, FIT).body)["error"]
            assert ("wait-token-closed", "cancelled") == (reply["code"], reply["details"]["state"])
        assert "cancelled" == tenant.run(run_id)["status"]
        assert 201 == tenant.begin(uuid4().hex).status

    def test_what_is_not_there_is_said_so(self, servers: Fleet) -> None:
        tenant = Tenant(servers, project="app")

        assert (404, "project-not-found") == code(tenant.begin(uuid4().hex))
        tenant.name = "nobody"
        assert (404, "workspace-not-found") == code(tenant.begin(uuid4().hex))

    def test_a_closing_workspace_is_closed_once_its_last_run_is_cancelled(self, servers: Fleet) -> None:
        tenant = Tenant(servers)
        run_id, _, _ = tenant.waiting()

        assert "closing" == json.loads(tenant.change("close").body)["state"]

        servers.until(lambda: servers.read(tenant.path)["state"] == "closed", "it is closed")
        assert "cancelled" == tenant.run(run_id)["status"]
        assert (409, "tenant-state-conflict") == code(tenant.change("restore"))

    def test_another_workspace_s_run_goes_on(self, servers: Fleet) -> None:
        suspended, other = Tenant(servers), Tenant(servers)
        run_id, link, _ = other.waiting()
        suspended.waiting()
        suspended.change("suspend")

        assert 200 == servers.send(link, FIT).status
        servers.until(lambda: other.run(run_id)["status"] == "completed", "the run is completed")


class TestWhileAnAnswerIsHeld:
    def test_it_is_discarded_and_refused_from_then_on(self, servers: Fleet) -> None:
        tenant = Tenant(servers)
        name = uuid4().hex
        run_id = json.loads(tenant.begin(name, wait=False, does="hold").body)["id"]
        link = servers.link(name)
        assert 200 == servers.send(link, FIT).status

        tenant.change("suspend")

        assert {(409, "tenant-suspended")} == {code(servers.send(link, FIT)) for _ in range(ASKED)}
        tenant.ended(run_id)
        servers.let_go(name)
        events = json.loads(tenant.ask("GET", f"/v1/runs/{run_id}/journal").body)["data"]
        assert ["wait-token-discarded", "cancelled"] == [event["kind"] for event in events][-2:]


class TestRaces:
    def test_two_suspensions_at_once_are_one(self, servers: Fleet) -> None:
        tenant = Tenant(servers)

        replies = _at_once([lambda: tenant.change("suspend")] * 4)

        assert [200, 409, 409, 409] == sorted(reply.status for reply in replies)
        told = [json.loads(reply.body)["error"] for reply in replies if reply.status == 409]
        assert {("tenant-state-conflict", "suspended")} == {
            (error["code"], error["details"]["state"]) for error in told
        }

    def test_an_answer_and_a_suspension_at_once_agree_with_what_became_of_the_run(
        self, servers: Fleet
    ) -> None:
        """Accepted: the answer is in the journal. Refused: it is nowhere."""
        for _ in range(6):
            tenant = Tenant(servers)
            run_id, link, _ = tenant.waiting()

            answer, suspended = _at_once(
                [partial(servers.send, link, FIT), partial(tenant.change, "suspend")]
            )

            assert 200 == suspended.status
            tenant.ended(run_id, "cancelled", "completed")
            events = json.loads(tenant.ask("GET", f"/v1/runs/{run_id}/journal").body)["data"]
            taken = "wait-token-completed" in [event["kind"] for event in events]
            assert taken == (answer.status == 200)
            if not taken:
                error = json.loads(answer.body)["error"]
                state = error.get("details", {}).get("state")
                assert (error["code"], state) in (
                    ("tenant-suspended", None), ("wait-token-closed", "cancelled"),
                )  # fmt: skip

    def test_starts_and_a_suspension_at_once_leave_no_run_behind(self, servers: Fleet) -> None:
        for _ in range(3):
            tenant = Tenant(servers)
            starts = [partial(tenant.begin, uuid4().hex, wait=False) for _ in range(8)]

            *replies, suspended = _at_once([*starts, partial(tenant.change, "suspend")])

            assert 200 == suspended.status
            begun = [json.loads(reply.body)["id"] for reply in replies if reply.status == 202]
            refused = {code(reply) for reply in replies if reply.status != 202}
            assert refused <= {(409, "tenant-suspended")}
            for run_id in begun:
                tenant.ended(run_id)


def _at_once(works: list[Any]) -> list[RawResponse]:
    """Send all of it at one moment."""
    barrier = threading.Barrier(len(works))

    def work(each: Any) -> RawResponse:
        barrier.wait()
        reply: RawResponse = each()
        return reply

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(work, works))
