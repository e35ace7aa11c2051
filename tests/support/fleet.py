"""Real servers on one store, started as an operator does: gunicorn, on PostgreSQL with four processes.

What a test sends goes over sockets of its own, byte for byte if it likes; what handlers did is in a folder.
"""

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.support.link_pack import OUTSIDE
from tests.support.pages import ROOT
from tests.support.project import Project, Server, answers, project, wait_until
from tests.support.raw_http import RawResponse, exchange, request

KEY = "abk_fleet_fleet_fleet_fleet"
JSON = (("Content-Type", "application/json"),)


@dataclass
class Fleet:
    """A deployment that serves on `port`, over `processes` processes."""

    folder: Path
    port: int
    database_url: str | None
    operator: Project
    servers: list[Server] = field(default_factory=list)

    @property
    def store_kind(self) -> str:
        """`sqlite` or `postgres`."""
        return "sqlite" if self.database_url is None else "postgres"

    @property
    def database(self) -> str:
        """The name of its database on PostgreSQL."""
        return urlsplit(self.database_url or "").path.removeprefix("/")

    def execute(self, text: str) -> None:
        """One statement straight to the store's journal, behind the servers' back."""
        if self.database_url is not None:
            with psycopg.connect(self.database_url, autocommit=True) as connection:
                connection.execute(text.encode())
            return
        file = self.folder / "data" / "journal.db"
        with closing(sqlite3.connect(file, isolation_level=None, timeout=20)) as connection:
            connection.execute(text)

    def serve(self, **variables: str) -> Server:
        """Start the server; it is ready on return."""
        port = int(variables.get("ABEYANCE_PORT", self.port))
        server = self.operator.serve("abeyance serve", **variables)
        ready = f"http://127.0.0.1:{port}/ready"
        wait_until(lambda: answers(ready) or server._fail(), f"the server is ready:\n{server.printed}")
        self.servers.append(server)
        return server

    def post(self, path: str, value: object = None, **more: Any) -> RawResponse:
        """POST JSON with the app's key."""
        body = b"" if value is None else json.dumps(value).encode()
        return self.send(path, body, key=True, **more)

    def send(
        self,
        path: str,
        body: bytes = b"",
        headers: tuple[tuple[str, str], ...] = JSON,
        *,
        method: str = "POST",
        key: bool = False,
        timeout_s: float = 40.0,
    ) -> RawResponse:
        """One request on a connection of its own."""
        path = path.removeprefix(f"http://127.0.0.1:{self.port}")
        sent = (*headers, ("Authorization", f"Bearer {KEY}")) if key else headers
        data = request(path, body, sent, method=method, length=len(body))
        reply = exchange(self.port, data, timeout_s=timeout_s)
        assert reply is not None, "the server closed without a reply"
        return reply

    def read(self, path: str) -> Any:
        """GET as often as it takes: who is asked may die."""
        found: list[RawResponse] = []

        def asked() -> bool:
            try:
                reply = self.send(path, method="GET", key=True)
            except (OSError, ValueError, AssertionError):
                return False
            if reply.status < 500:
                found.append(reply)
            return bool(found)

        self.until(asked, f"{path} is answered")
        return json.loads(found[0].body)

    def get(self, run_id: str, more: str = "") -> Any:
        """The run, or something under it."""
        return self.read(f"/v1/runs/{run_id}{more}")

    def start_deadly(self, name: str, what: dict[str, str], **order: Any) -> str:
        """Start a run whose process dies before it can reply; its id."""
        body = {**what, "input": {"name": name, **order}, "labels": {"name": name}, "wait": False}
        data = json.dumps(body).encode()
        headers = (*JSON, ("Authorization", f"Bearer {KEY}"))
        exchange(self.port, request("/v1/runs", data, headers), timeout_s=40)
        listed = f"/v1/runs?label=name%3D{name}"
        self.until(lambda: bool(self.read(listed)["data"]), f"{name} is listed")
        return str(self.read(listed)["data"][0]["id"])

    def start(self, flow: str, name: str, *, wait: bool = True, script: bool = False, **order: Any) -> Any:
        """Start a run; what the server says of it."""
        ttl = order.pop("ttl_ms", None)
        body = {
            "script" if script else "flow": flow,
            "input": {"name": name, **order},
            "wait": wait,
            **({} if ttl is None else {"ttlMs": ttl}),
        }
        reply = self.post("/v1/runs", body)
        assert reply.status in (201, 202), reply.body
        return json.loads(reply.body)

    def noted(self, name: str) -> list[dict[str, Any]]:
        """What the handlers of the runs of this name wrote down."""
        file = self.outside / f"{name}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def link(self, name: str, number: int = -1) -> str:
        """The path of a link that a handler was given."""
        least = number + 1 if number >= 0 else 1
        self.until(lambda: len(self.links(name)) >= least, f"{name} has its link")
        return self.links(name)[number]

    def links(self, name: str) -> list[str]:
        """The paths of all links that handlers of this name were given."""
        own = f"http://127.0.0.1:{self.port}"
        return [line["link"].removeprefix(own) for line in self.noted(name) if "link" in line]

    def settled(self, run_id: str, *statuses: str) -> Any:
        """The run once it has one of these statuses (default: it has ended)."""
        wanted = statuses or ("completed", "failed", "cancelled")
        self.until(lambda: self.get(run_id)["status"] in wanted, f"{run_id} is {wanted}")
        return self.get(run_id)

    def topics(self, run_id: str) -> list[str]:
        """The run's events."""
        return [event["kind"] for event in self.events(run_id)]

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """The run's events."""
        return list(self.get(run_id, "/journal?limit=1000")["data"])

    def until(self, holds: Callable[[], bool], what: str, within_s: float = 40.0) -> None:
        """Return once it holds."""
        wait_until(holds, what, within_s=within_s)

    @property
    def outside(self) -> Path:
        """What handlers write and look for."""
        return self.folder / "outside"

    def kill(self, process: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to one of the server's processes."""
        os.kill(process, number)

    def let_die(self, name: str, times: int) -> None:
        """The first so many handlers of this name kill their process; none any more with 0."""
        (self.outside / f"die-{name}").write_text(str(times))

    def let_go(self, name: str) -> None:
        """Let the handlers that hold for this name go on."""
        (self.outside / f"go-{name}").touch()


@contextmanager
def fleet(
    folder: Path, port: int, database_url: str | None, variables: Mapping[str, str] = {}
) -> Iterator[Fleet]:
    """A deployment with its keys and tables; nothing serves yet."""
    folder.mkdir(parents=True)
    (folder / "outside").mkdir()
    store = {} if database_url is None else {"ABEYANCE_DATABASE_URL": database_url, "ABEYANCE_WORKERS": "4"}
    settings = {
        **store,
        "ABEYANCE_DATA_DIR": str(folder / "data"),
        "ABEYANCE_KEY_DIR": str(folder / "keys"),
        "ABEYANCE_ORIGIN": "fleet.example.com/runs",
        "ABEYANCE_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "ABEYANCE_PORT": str(port),
        "ABEYANCE_API_KEY": KEY,
        "ABEYANCE_API_URL": f"http://127.0.0.1:{port}",
        "ABEYANCE_LINK_RATE": "0",
        "ABEYANCE_LEASE_S": "2",
        "ABEYANCE_POLL_MS": "50",
        "ABEYANCE_PROJECT_DIR": str(ROOT),
        "ABEYANCE_PACK": "tests.support.link_pack",
        OUTSIDE: str(folder / "outside"),
        **variables,
    }
    with project(folder / "work", settings) as made:
        made.shell(f"abeyance keys make {folder / 'keys'}")
        if database_url is not None:
            made.shell("abeyance db migrate")
        yield Fleet(folder, port, database_url, made)
