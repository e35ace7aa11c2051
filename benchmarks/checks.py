"""What must be true of the runs that were timed: their events, their signatures, their effects."""

import json
from collections.abc import Sequence

from abeyance.bootstrap import verify_run
from abeyance.settings import Settings
from benchmarks.errors import BenchmarkError
from benchmarks.server import Server
from benchmarks.wire import exchange, request

EVENTS = [
    "started",
    "call-started",
    "call-completed",
    "call-started",
    "call-paused",
    "suspended",
    "wait-token-completed",
    "call-started",
    "call-completed",
    "completed",
]
SAMPLE = 20


def sample_of(run_ids: Sequence[str]) -> list[str]:
    """A few of them, spread over all."""
    return list(run_ids[:: max(1, len(run_ids) // SAMPLE)])


def check_events(server: Server, run_ids: Sequence[str]) -> None:
    """Raise `BenchmarkError` unless each of these runs of the flow wrote exactly the events of B1."""
    for run_id in run_ids:
        reply = exchange(server.address, request("GET", f"/v1/runs/{run_id}/journal", key=server.key))
        if reply.status != 200:
            raise BenchmarkError(f"the journal of run {run_id} got {reply.status}: {reply.body!r}")
        found = [entry["kind"] for entry in json.loads(reply.body)["data"]]
        if found != EVENTS:
            raise BenchmarkError(f"run {run_id} wrote {found}")


def check_signatures(server: Server, run_ids: Sequence[str]) -> None:
    """Raise `BenchmarkError` unless signatures and chains of these runs hold. The server must be stopped."""
    settings = Settings.load(server.environment)
    for run_id in run_ids:
        result = verify_run(settings, run_id)
        if result["verdict"] != "verified":
            raise BenchmarkError(f"run {run_id} is {result['verdict']}: {result['findings']}")
