"""The floor: the same rows in plain SQL, in the four commits that no system can do without.

Two processes, as in the main job: this one starts runs and parks them (two commits), the answerer takes
the answer and ends the run (two more); each tells the other by a datagram. No HTTP, no signature, no
engine. With 16 clients there are 16 threads and connections on both sides; on SQLite, which has one
writer, a process has one connection and a lock around it.

``python -m benchmarks.floor FOLDER STORE URL CLIENTS`` is the answerer.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from benchmarks.errors import BenchmarkError
from benchmarks.floor_rows import Commit, make_tables, open_commits
from benchmarks.samples import percentile
from benchmarks.server import ROOT
from benchmarks.wire import mailbox, sender

SECONDS = 2.0
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Floor:
    """What plain SQL reached."""

    runs_per_s: float
    p50_ms: float
    p99_ms: float


def measure_floor(folder: Path, store: str, url: str, clients: int, seconds: float = SECONDS) -> Floor:
    """Run the floor for some seconds, after a warm-up of a tenth. `url`: where an empty store is."""
    make_tables(store, url)
    with (
        _answerer(folder, store, url, clients),
        _sides(folder, store, url, clients, "start", "answer") as sides,
    ):
        _drive(sides, seconds / 10)
        began = time.perf_counter()
        took = _drive(sides, seconds)
        elapsed = time.perf_counter() - began
    return Floor(len(took) / elapsed, percentile(took, 50), percentile(took, 99))


@dataclass(slots=True)
class Side:
    """One client's end: its commits, its mailbox, and the other end's."""

    commit: Commit
    inbox: socket.socket
    other: Path


def _drive(sides: list[Side], seconds: float) -> list[float]:
    """Closed loop: each client starts, parks, and waits for the end; ms a run."""
    took: list[float] = []
    problems: list[BaseException] = []
    end = time.monotonic() + seconds

    def client(side: Side) -> None:
        try:
            with sender(side.other) as out:
                while time.monotonic() < end:
                    began, run_id = time.perf_counter(), uuid4()
                    side.commit(run_id, 0)
                    side.commit(run_id, 1)
                    out.send(run_id.bytes)
                    side.inbox.recv(16)
                    took.append((time.perf_counter() - began) * 1e3)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=client, args=(side,)) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise BenchmarkError("the floor failed") from problems[0]
    return took


@contextmanager
def _sides(folder: Path, store: str, url: str, clients: int, own: str, other: str) -> Iterator[list[Side]]:
    shared = _locked(open_commits(store, url)) if store == "sqlite" else None
    sides = []
    for number in range(clients):
        path = folder / f"floor-{own}-{number}"
        path.unlink(missing_ok=True)
        inbox = mailbox(path)
        inbox.settimeout(_PATIENCE_S if own == "start" else None)
        sides.append(Side(shared or open_commits(store, url), inbox, folder / f"floor-{other}-{number}"))
    try:
        yield sides
    finally:
        for side in sides:
            side.inbox.close()


def _locked(commit: Commit) -> Commit:
    lock = threading.Lock()

    def alone(run_id: UUID, number: int) -> None:
        with lock:
            commit(run_id, number)

    return alone


@contextmanager
def _answerer(folder: Path, store: str, url: str, clients: int) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.floor", str(folder), store, url, str(clients)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise BenchmarkError("the floor's answerer did not start")
        yield
    finally:
        process.kill()
        process.communicate()


def _answer(side: Side) -> None:
    out: socket.socket | None = None
    while True:
        run_id = UUID(bytes=side.inbox.recv(16))
        side.commit(run_id, 2)
        side.commit(run_id, 3)
        out = out or sender(side.other)
        out.send(run_id.bytes)


def _serve(folder: Path, store: str, url: str, clients: int) -> None:
    with _sides(folder, store, url, clients, "answer", "start") as sides:
        for side in sides:
            threading.Thread(target=_answer, args=(side,), daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()  # until the other process is gone


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
