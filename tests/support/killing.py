"""A real server that kills itself at a named place, and who starts it, speaks to it and starts it again.

`python -m tests.support.killing` is `abeyance serve` with a barrier. At the passage that `KILL_AT` names,
of a run that was started in this life, the process group gets SIGKILL: gunicorn, its worker, everything.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from abeyance.settings import Settings
from tests.support.kill_pack import OUTSIDE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
KEY = "abk_killing_killing_killing"
RUNS = ({"script": "kill.script"}, {"flow": "kill.flow"})


@dataclass(frozen=True, slots=True)
class Place:
    """The `nth` passage of `name`, from 1, in one life of a process.

    `append <topic>` is passed before an event of this topic is written, `stored <topic>` after it; the others
    are `call-recorded` and `effect-done`.
    """

    name: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name}#{self.nth}"


class Trap:
    """The barrier in the victim: it counts passages, writes them down if it is asked to, and kills."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._kill_at = variables.get("KILL_AT")
        self._trace = variables.get("KILL_TRACE")
        self._born = int(variables.get("KILL_BORN", "0"))
        self._passed: Counter[str] = Counter()

    async def __call__(self, name: str, run_id: UUID) -> None:
        """Pass, or die. A run's id begins with the milliseconds when it was made."""
        if run_id.int >> 80 < self._born:
            return
        for place in places_of(name):
            self._passed[place] += 1
            passage = str(Place(place, self._passed[place]))
            if self._trace:
                with open(self._trace, "a", encoding="utf-8") as file:
                    file.write(f"{passage}\n")
            if passage == self._kill_at:
                os.killpg(0, signal.SIGKILL)


def places_of(name: str) -> list[str]:
    """The places that a barrier's name stands for: one an event."""
    kind, _, topics = name.partition(":")
    return [f"{kind} {topic}" for topic in dict.fromkeys(topics.split(","))] if topics else [name]


@dataclass(slots=True)
class Reply:
    """A reply that came whole: only this is acknowledged."""

    status: int
    body: Any


@dataclass(slots=True)
class Outside:
    """What the file of the world outside says."""

    ran: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    links: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    steps: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, file: Path) -> "Outside":
        """Everything that handlers have done so far."""
        found = cls()
        for line in file.read_text().splitlines() if file.exists() else ():
            each = json.loads(line)
            if "step" in each:
                found.steps[each["step"]] += 1
                continue
            found.ran[each["run"]][each["key"]] += 1
            if each.get("wanted"):
                found.links[each["run"]].append(each["link"])
        return found


class Victim:
    """One deployment: its folder, its store, and the server that is killed and started again."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        self.folder = folder
        self.outside = folder / "outside.jsonl"
        self.started: set[UUID] = set()
        self.answered: dict[str, str] = {}
        self.problems: list[str] = []
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.variables = self._variables(database_url)
        self._run("keys", "make", str(folder / "keys"))

    @property
    def settings(self) -> Settings:
        """The deployment's settings, to open its store when nobody serves it."""
        return Settings.load(self.variables)

    @property
    def dead(self) -> bool:
        """Whether it has ended."""
        return self._process is None or self._process.poll() is not None

    def start(self, kill_at: Place | None = None, trace: Path | None = None) -> None:
        """Start it; return once it is ready, or dead again."""
        more = {"KILL_BORN": str(int(time.time() * 1000))}
        if kill_at is not None:
            more["KILL_AT"] = str(kill_at)
        if trace is not None:
            more["KILL_TRACE"] = str(trace)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.killing"],
                cwd=ROOT,
                env=self.variables | more,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE_S
        while not self.dead and self.ask("GET", "/ready") is None:
            assert time.monotonic() < end, self.said()
            time.sleep(0.02)

    def stop(self) -> int:
        """Stop it as an operator does; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End it and all that it has started at once."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def ask(self, method: str, path: str, body: object = None) -> Reply | None:
        """One request; `None` if no whole reply came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, data, headers)
            reply = connection.getresponse()
            return Reply(reply.status, json.loads(reply.read() or b"null"))
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def start_runs(self) -> set[UUID]:
        """Start one of each kind; those that were acknowledged."""
        new: set[UUID] = set()
        for kind in RUNS:
            reply = self.ask("POST", "/v1/runs", {**kind, "wait": False})
            if reply is not None and reply.status in (201, 202):
                new.add(UUID(reply.body["id"]))
        self.started |= new
        return new

    def answer_all(self) -> None:
        """Post an answer to every link that wants one and has none acknowledged."""
        for run, links in Outside.read(self.outside).links.items():
            if run not in self.answered:
                self._answer(run, links[-1])

    def _answer(self, run: str, link: str) -> None:
        value = f"answer to {run}"
        reply = self.ask("POST", link.removeprefix(f"http://127.0.0.1:{self.port}"), value)
        if reply is None or reply.status == 503:
            return
        if reply.status != 200:
            self.problems.append(f"the only answer to {run} was refused: {reply.status} {reply.body}")
        self.answered[run] = value

    def live(
        self,
        kill_at: Place | None = None,
        trace: Path | None = None,
        seconds: float = PATIENCE_S,
        stopped: bool = False,
    ) -> bool:
        """One life: start, start runs, answer what asks, until it is dead or its own runs have ended.

        Returns whether it died. After `seconds` it is killed from outside, or `stopped`.
        """
        self.start(kill_at, trace)
        end = time.monotonic() + seconds
        own = set() if self.dead else self.start_runs()
        while not self.dead and not self.ended(own):
            self.answer_all()
            if time.monotonic() > end:
                self._end(stopped)
            time.sleep(0.005)
        died = self.dead
        if stopped and not died:
            self._end(stopped)
        return died

    def _end(self, stopped: bool) -> None:
        if not stopped:
            self.kill()
        elif (code := self.stop()) != 0:
            self.problems.append(f"a stop ended with {code}: {self.said()}")

    def finish(self) -> None:
        """A last life without a trap: every run ends, every answer is sent twice, the server stops."""
        self.start()
        end = time.monotonic() + PATIENCE_S
        while not self.ended(self.started | set(map(UUID, Outside.read(self.outside).ran))):
            self.answer_all()
            assert time.monotonic() < end, self.said()
            time.sleep(0.02)
        for run, links in Outside.read(self.outside).links.items():
            if run in self.answered:
                self._answer(run, links[-1])
                other = self.ask("POST", links[0].removeprefix(f"http://127.0.0.1:{self.port}"), "other")
                if other is None or other.status != 409:
                    self.problems.append(f"another answer to {run} was not refused: {other}")
        assert self.stop() == 0

    def ended(self, runs: set[UUID]) -> bool:
        """Whether all of these runs are seen to have ended."""
        for run in runs:
            reply = self.ask("GET", f"/v1/runs/{run}")
            if reply is None or reply.body.get("status") not in ("completed", "failed", "cancelled"):
                return False
        return bool(runs)

    def said(self) -> str:
        """The end of its log."""
        return (self.folder / "server.log").read_text(errors="replace")[-3_000:]

    def _variables(self, database_url: str | None) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("ABEYANCE_")}
        paths = [str(ROOT / "src"), str(ROOT)]
        store = {} if database_url is None else {"ABEYANCE_DATABASE_URL": database_url}
        return own | store | {
            "PYTHONPATH": os.pathsep.join(paths),
            OUTSIDE: str(self.outside),
            "ABEYANCE_ORIGIN": "kill.example/runs",
            "ABEYANCE_KEY_DIR": str(self.folder / "keys"),
            "ABEYANCE_DATA_DIR": str(self.folder / "data"),
            "ABEYANCE_PROJECT_DIR": str(ROOT),
            "ABEYANCE_PACK": "tests.support.kill_pack",
            "ABEYANCE_API_KEY": KEY,
            "ABEYANCE_PORT": str(self.port),
            "ABEYANCE_PUBLIC_URL": f"http://127.0.0.1:{self.port}",
            "ABEYANCE_LINK_RATE": "0",
            "ABEYANCE_LEASE_S": "2",
            "ABEYANCE_POLL_MS": "50",
        }  # fmt: skip

    def _run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "abeyance", *arguments]
        subprocess.run(command, cwd=self.folder, env=self.variables, check=True, capture_output=True)


@contextmanager
def victim(folder: Path, database_url: str | None) -> Iterator[Victim]:
    """A deployment whose server is gone at the end."""
    folder.mkdir(parents=True)
    made = Victim(folder, database_url)
    try:
        yield made
    finally:
        made.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Serve as `abeyance serve` does."""
    from abeyance.bootstrap.serving import Process, Server

    settings = Settings.load()
    Server(Process(settings, "serve", testing_only_barrier=Trap(os.environ)), ready=lambda url: None).serve()


if __name__ == "__main__":
    main()
