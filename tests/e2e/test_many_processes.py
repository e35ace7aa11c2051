"""Several processes on one PostgreSQL, as `docs/how-to/run-on-postgresql.md` sets them up, and what kills do.

Real gunicorn, real workers, real kills. The processes share the database and nothing else; each writes its
name into a file of the project when it runs a handler, so that a test sees which of them did what.
"""

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from scripts.temporary_postgres import TemporaryPostgres
from tests.support.pages import DOCS, Block, blocks
from tests.support.project import Project, Server, answers, project, wait_until

pytestmark = pytest.mark.slow

PAGE = blocks(DOCS / "how-to" / "run-on-postgresql.md")
ANSWER = {"pickupId": "pk_7", "pickupAt": "2026-10-25T09:00:00Z"}
PACK = '''
"""Ships orders; each handler writes down which process ran it."""

import os
import time

from pydantic import BaseModel, Field

from abeyance import PauseAnswer, ToolContext, flow, step, tool


class Order(BaseModel):
    order_id: str = Field(alias="orderId")


class Pickup(BaseModel):
    pickup_id: str = Field(alias="pickupId")
    pickup_at: str = Field(alias="pickupAt")


def note(*words: str) -> None:
    with open("handlers.txt", "a") as file:
        file.write(" ".join((os.environ["NAME"], *words)) + "\\n")


@tool(id="shipping.request-pickup", pauses=True)
def request_pickup(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
    note("pickup", ctx.idempotency_key, ctx.wait_token.url)
    while os.path.exists("hold-" + os.environ["NAME"]):
        time.sleep(0.01)
    return ctx.pause(timeout_ms=7_200_000, name="the carrier's confirmation")


@tool(id="shipping.tell-customer")
def tell_customer(pickup: Pickup, ctx: ToolContext) -> Pickup:
    note("tell", ctx.idempotency_key)
    return pickup


ship_order = flow(
    "shipping.ship-order",
    input=Order,
    steps=[
        step("pickup", request_pickup),
        step("tell", tell_customer, needs=["pickup"], input=lambda results: results["pickup"]),
    ],
)
'''


def commands(word: str = "") -> list[Block]:
    """The page's commands that have this word; those without any by default."""
    return [block for block in PAGE if block.language == "sh" and (word,) == (block.words or ("",))]


@dataclass
class Deployment:
    """Whoever set up the machines by the page."""

    project: Project
    ports: list[int]

    def setup(self, url: str) -> None:
        """Make the keys, set the variables, make the tables."""
        (self.project.folder / "shipping.py").write_text(PACK)
        (self.project.folder / "pyproject.toml").write_text('[tool.abeyance]\npack = "shipping"\n')
        keys, tables, _ = commands()
        folder = str(self.project.folder / "keys")
        self.project.shell(keys.code.replace("/etc/abeyance/keys", folder))
        (variables,) = commands("variables")
        self.project.environment |= dict(re.findall(r"^export (\w+)=(.*)$", variables.code, re.M))
        self.project.environment |= {
            "ABEYANCE_DATABASE_URL": url,
            "ABEYANCE_KEY_DIR": folder,
            "ABEYANCE_LEASE_S": "2",
        }
        self.project.shell(tables.code)

    def start(self, kind: str, name: str, options: str = "") -> tuple[Server, int]:
        """Start a process with the page's command, on a port of its own; it is ready on return."""
        (command,) = [block.code.strip() for block in commands("server") if f"abeyance {kind}" in block.code]
        port = self.ports.pop()
        server = self.project.serve(
            f"{command.replace(' --port 8421', '')} {options}", NAME=name, ABEYANCE_PORT=str(port)
        )
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/ready"), f"{name} is ready:\n{server.printed}")
        return server, port

    def use(self, port: int, code: str) -> Any:
        """Use the deployment through one of its processes."""
        url = f"ABEYANCE_API_URL=http://127.0.0.1:{port}\n"
        return json.loads(self.project.shell(f"export {url}{code}").stdout)

    def start_run(self, port: int, more: str = "") -> Any:
        """Start a run with the page's command."""
        code = commands()[2].code.splitlines()[-1]
        return self.use(port, f"{code} {more}")

    def until(self, port: int, run_id: str, status: str) -> Any:
        """The run once it is so."""
        wait_until(
            lambda: self.use(port, f"abeyance runs get {run_id}")["status"] == status, f"{run_id} is {status}"
        )
        return self.use(port, f"abeyance runs get {run_id}")

    def hold(self, name: str) -> None:
        """Let the first handler of this process never return."""
        (self.project.folder / f"hold-{name}").touch()

    def handlers(self) -> list[list[str]]:
        """Which process ran which handler, in order: name, step, idempotency key, link."""
        file = self.project.folder / "handlers.txt"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def link(self, port: int, number: int = -1) -> str:
        """The newest link (or the one of another call), as the proxy in front leads it to one process."""
        url = [words[3] for words in self.handlers() if words[1] == "pickup"][number]
        assert url.startswith("https://runs.shop.example.com/v1/wait-tokens/")
        return url.replace("https://runs.shop.example.com", f"http://127.0.0.1:{port}")

    def kinds(self, port: int, run_id: str) -> list[str]:
        """The run's events."""
        journal = self.use(port, f"abeyance runs journal {run_id}")
        return [event["kind"] for event in journal["data"]]


def post(url: str, value: object) -> tuple[int, Message, Any]:
    """POST JSON: status, headers, body."""
    request = urllib.request.Request(url, json.dumps(value).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.headers, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


@pytest.fixture
def free_ports() -> list[int]:
    probes = [socket.socket() for _ in range(6)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture
def make_deployment(tmp_path: Path, free_ports: list[int]) -> Iterator[Callable[[str], Deployment]]:
    with project(tmp_path / "shipping") as made:

        def make(url: str) -> Deployment:
            deployment = Deployment(made, free_ports)
            deployment.setup(url)
            return deployment

        yield make


@pytest.fixture
def deployment(make_deployment: Callable[[str], Deployment], postgres_url: str) -> Deployment:
    return make_deployment(postgres_url)


class TestManyProcesses:
    def test_started_through_one_answered_through_a_second_finished_on_a_third(
        self, deployment: Deployment
    ) -> None:
        """The first is killed while the run waits; the second only serves, the third only executes."""
        first, port = deployment.start("serve", "first")
        run = deployment.start_run(port)
        assert "suspended" == run["status"]
        first.kill()

        second, port = deployment.start("serve", "second", "--no-execute")
        assert "suspended" == deployment.use(port, f"abeyance runs get {run['id']}")["status"]
        status, _, reply = post(deployment.link(port), ANSWER)
        assert (200, {"status": "accepted"}) == (status, reply)

        third, _ = deployment.start("worker", "third")
        ended = deployment.until(port, run["id"], "completed")

        assert ANSWER == ended["output"]
        assert [["first", "pickup"], ["third", "tell"]] == [words[:2] for words in deployment.handlers()]
        assert (200, reply) == post(deployment.link(port), ANSWER)[::2]
        verified = deployment.use(port, f"abeyance audit verify {run['id']}")
        assert ("verified", 8) == (verified["verdict"], verified["events"])
        assert [0, 0] == [second.stop(), third.stop()]

    def test_a_worker_s_wake_up_crosses_processes_at_once(self, deployment: Deployment) -> None:
        """An answer through a process that doesn't execute is gone on with elsewhere, long before a poll."""
        deployment.project.environment["ABEYANCE_POLL_MS"] = "60000"
        deployment.start("worker", "worker")
        _, port = deployment.start("serve", "front", "--no-execute")

        run = deployment.start_run(port)
        post(deployment.link(port), ANSWER)

        assert ANSWER == deployment.until(port, run["id"], "completed")["output"]
        assert ["worker", "worker"] == [words[0] for words in deployment.handlers()]

    def test_a_handler_whose_process_was_killed_runs_again_elsewhere(self, deployment: Deployment) -> None:
        """After the lease, with the same key and another link; both links answer the one wait."""
        deployment.hold("lost")
        _, port = deployment.start("serve", "front", "--no-execute")
        lost, _ = deployment.start("worker", "lost")
        run = deployment.start_run(port, "--no-wait")
        wait_until(lambda: len(deployment.handlers()) == 1, "the handler runs")
        lost.kill()

        deployment.start("worker", "other")
        deployment.until(port, run["id"], "suspended")

        (_, _, key, link), (name, _, key_again, other_link) = deployment.handlers()
        assert ("other", key, True) == (name, key_again, link != other_link)
        assert ["started", "call-started", "rerun", "call-paused", "suspended"] == deployment.kinds(
            port, run["id"]
        )
        assert 200 == post(deployment.link(port, 0), ANSWER)[0]
        assert 409 == post(deployment.link(port), {**ANSWER, "pickupId": "pk_8"})[0]
        deployment.until(port, run["id"], "completed")

    def test_a_stopped_process_gives_its_runs_back_at_once(self, deployment: Deployment) -> None:
        """SIGTERM: another process runs the call long before the lease would have ended; then exit 0."""
        deployment.project.environment |= {"ABEYANCE_LEASE_S": "600", "ABEYANCE_DRAIN_S": "1"}
        deployment.hold("stopped")
        _, port = deployment.start("serve", "front", "--no-execute")
        stopped, _ = deployment.start("worker", "stopped")
        run = deployment.start_run(port, "--no-wait")
        wait_until(lambda: len(deployment.handlers()) == 1, "the handler runs")
        stopped.process.send_signal(signal.SIGTERM)

        deployment.start("worker", "other")
        deployment.until(port, run["id"], "suspended")

        assert 0 == stopped.stop()
        assert ["stopped", "other"] == [words[0] for words in deployment.handlers()]


class TestDatabaseGone:
    def test_every_route_says_503_and_the_processes_go_on_by_themselves(
        self, make_deployment: Callable[[str], Deployment]
    ) -> None:
        """Nothing is taken meanwhile, and nothing has to be started again afterwards."""
        with TemporaryPostgres() as postgres:
            deployment = make_deployment(postgres.url)
            _, port = deployment.start("serve", "server")
            run = deployment.start_run(port)
            link = deployment.link(port)

            postgres.crash()
            status, headers, reply = post(link, ANSWER)
            assert (503, "tenant-state-unavailable") == (status, reply["error"]["code"])
            assert 1 <= int(headers["Retry-After"])
            assert not answers(f"http://127.0.0.1:{port}/ready")
            assert answers(f"http://127.0.0.1:{port}/health")

            postgres.start()
            wait_until(lambda: answers(f"http://127.0.0.1:{port}/ready"), "it is ready again")
            assert "suspended" == deployment.use(port, f"abeyance runs get {run['id']}")["status"]
            assert 200 == post(link, ANSWER)[0]
            deployment.until(port, run["id"], "completed")
