"""The clients: they start runs, have the carrier answer them, and see them end.

Everything is in this one thread; `Driver.run` returns when all clients have ended. A run is seen to end
by `GET /v1/runs/{id}`, asked from the moment that its last step has said that it ran; `GET_AGAIN_S` lies
between two requests for one run. Times are in ns of the monotonic clock, which driver, carrier and server
share.
"""

import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.errors import BenchmarkError
from benchmarks.loop import Client, Loop, Mail
from benchmarks.server import ROOT, Server
from benchmarks.wire import Connection, Reply, mailbox, request, sender

ANSWER = b'{"approved":true,"by":"ops@example.org","note":"looks right","n":42}'
ONE_ANSWER = b'{"flow":"bench.one-answer","input":{"n":1}}'
GET_AGAIN_S = 0.0005
_DATAGRAM = 65_536
_ENDED = ("completed", "failed", "cancelled")


class Answered(NamedTuple):
    """What the carrier got for an answer."""

    sent: int
    replied: int
    status: int
    body: bytes


class Waiting(NamedTuple):
    """A run that waits. `took` is the time from asking for it to hearing that it waits, in ns."""

    run_id: str
    link: str
    took: int


@dataclass(slots=True)
class Finished:
    """A run that was answered and has ended. `next_step`, `completed`: ns from the sending of the answer to
    the next step running, and to hearing that the run has completed; `accepted`: to the carrier's 200.
    """

    run_id: str
    sent: int
    accepted: int
    next_step: int
    completed: int
    whole: int = 0


class Driver:
    """Clients of one server, and the carrier beside them."""

    def __init__(self, folder: Path, server: Server, carrier: subprocess.Popen[bytes]) -> None:
        self.loop = Loop()
        self.carrier = carrier
        self.requests = 0
        self._server = server
        self._inbox = mailbox(folder / "driver")
        self._inbox.setblocking(False)
        self._carrier_path = folder / "carrier"
        self._orders: Any = None
        self._connections: list[Connection] = []
        self.loop.read(self._inbox.fileno(), self._read_inbox)

    def run(self, *clients: Client[Any]) -> None:
        """Run clients to their ends."""
        self.loop.run(*clients)

    def connect(self) -> Connection:
        """A connection to the server that this loop reads."""
        connection = Connection(self._server.address)
        self._connections.append(connection)

        def read() -> None:
            reply = connection.receive()
            if reply is not None:
                self.loop.deliver(Mail("reply", connection.fileno()), reply)

        self.loop.read(connection.fileno(), read)
        return connection

    def disconnect(self) -> None:
        """Close all connections, as before the server is killed."""
        for connection in self._connections:
            self.loop.forget(connection.fileno())
            connection.close()
        self._connections.clear()

    def ask(self, connection: Connection, message: bytes) -> Generator[Mail, Any, Reply]:
        """One request, one reply."""
        self.requests += 1
        connection.send(message)
        reply: Reply = yield Mail("reply", connection.fileno())
        return reply

    def start(self, connection: Connection, body: bytes) -> Generator[Mail | float, Any, Waiting]:
        """Start a run and wait until it waits."""
        began = time.monotonic_ns()
        reply = yield from self.ask(connection, request("POST", "/v1/runs", key=self._server.key, body=body))
        run = _read_run(reply, 201, 202)
        while run["status"] not in ("suspended", *_ENDED):
            yield 0.01
            run = yield from self.get(connection, run["id"])
        took = time.monotonic_ns() - began
        if run["status"] != "suspended":
            raise BenchmarkError(f"run {run['id']} is {run['status']} and should wait: {reply.body!r}")
        link: str = yield Mail("link", run["id"])
        return Waiting(run["id"], link, took)

    def get(self, connection: Connection, run_id: str) -> Generator[Mail, Any, dict[str, Any]]:
        """The run once it rests: the server answers when it has ended, or waits again."""
        message = request("GET", f"/v1/runs/{run_id}?wait=true", key=self._server.key)
        return _read_run((yield from self.ask(connection, message)), 200)

    def answer(self, name: str, link: str, body: bytes = ANSWER) -> None:
        """Have the carrier post an answer; what it gets comes as mail `answered` under this name."""
        order = f"{name} {link} ".encode() + body
        while True:
            try:
                self._orders.send(order)
                return
            except BlockingIOError:  # it may be waiting for us to read what it reports
                self._read_inbox()

    def finish(self, connection: Connection, waiting: Waiting) -> Generator[Mail | float, Any, Finished]:
        """Have a waiting run answered, and see it completed."""
        self.answer(waiting.run_id, waiting.link)
        return (yield from self.completed(waiting.run_id, connection))

    def completed(
        self, run_id: str, connection: Connection | None = None
    ) -> Generator[Mail | float, Any, Finished]:
        """See a run completed that the carrier was told to answer. Without a connection one is made once the
        next step has run, when the server is known to be there.
        """
        ran: int = int((yield Mail("after", run_id)))
        connection = connection or self.connect()
        while True:
            run = yield from self.get(connection, run_id)
            if run["status"] in _ENDED:
                break
            yield GET_AGAIN_S
        seen = time.monotonic_ns()
        if run["status"] != "completed" or run.get("output") != {"n": json.loads(ANSWER)["n"]}:
            raise BenchmarkError(f"run {run_id} ended wrong: {run}")
        got: Answered = yield Mail("answered", run_id)
        if got.status != 200:
            raise BenchmarkError(f"the answer to run {run_id} got {got.status}: {got.body!r}")
        return Finished(run_id, got.sent, got.replied - got.sent, ran - got.sent, seen - got.sent)

    def await_carrier(self) -> None:
        """Return once the carrier reads orders."""

        def until_ready() -> Client[None]:
            yield Mail("ready", "carrier")

        self.run(until_ready())
        self._orders = sender(self._carrier_path)
        self._orders.setblocking(False)

    def close(self) -> None:
        """End the carrier and close everything."""
        self.disconnect()
        if self._orders is not None and self.carrier.poll() is None:
            self._orders.setblocking(True)
            self._orders.send(b"")
        try:
            self.carrier.wait(10)
        except subprocess.TimeoutExpired:
            self.carrier.kill()
        self.loop.forget(self._inbox.fileno())
        self._inbox.close()

    def _read_inbox(self) -> None:
        while True:
            try:
                kind, name, rest = self._inbox.recv(_DATAGRAM).decode().split(" ", 2)
            except BlockingIOError:
                return
            self.loop.deliver(Mail(kind, name), _answered(rest) if kind == "answered" else rest)


@contextmanager
def open_driver(folder: Path, server: Server, connections: int) -> Iterator[Driver]:
    """A driver and its carrier, which has this many connections."""
    driver: Driver | None = None
    for name in ("driver", "carrier"):
        (folder / name).unlink(missing_ok=True)
    try:
        command = [sys.executable, "-m", "benchmarks.carrier", str(folder), str(connections)]
        driver = Driver(folder, server, subprocess.Popen(command, cwd=ROOT))
        driver.await_carrier()
        yield driver
    finally:
        if driver is not None:
            driver.close()


def _answered(rest: str) -> Answered:
    sent, replied, status, body = rest.split(" ", 3)
    return Answered(int(sent), int(replied), int(status), body.encode())


def _read_run(reply: Reply, *expected: int) -> dict[str, Any]:
    if reply.status not in expected:
        raise BenchmarkError(f"the server answered {reply.status}: {reply.body!r}")
    run: dict[str, Any] = json.loads(reply.body)
    return run
