"""B1: runs a second, end to end.

Closed loop: each client starts a run (the request waits until the run is suspended), has the carrier
answer it at once, sees it completed, and starts the next.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

from benchmarks import processes
from benchmarks.checks import check_events, check_signatures, sample_of
from benchmarks.driver import ONE_ANSWER, Driver, Finished
from benchmarks.floor import Floor, measure_floor
from benchmarks.loop import Client
from benchmarks.report import Result
from benchmarks.samples import percentile
from benchmarks.setting import Setting, open_setting
from benchmarks.speed import sign_us
from benchmarks.stores import Counts, MakeStore, PostgresStore

RUNS = 2_000
WARM_UP_RUNS = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """Clocks and counters at one moment. `cpu`: seconds by process."""

    wall: float
    cpu: dict[str, float]
    counts: Counts
    requests: int


def measure_throughput(make: MakeStore, clients: int, runs: int | None) -> Result:
    """One series, with the floor before and after it."""
    with open_setting(make, clients) as setting:
        empty = {} if setting.store.sizes_need_stop() else setting.store.sizes()
        floors, speeds = [_floor(setting, clients)], [sign_us()]
        first = setting.store.counts()
        drive(setting.driver, clients, WARM_UP_RUNS)
        before = _read(setting)
        done = drive(setting.driver, clients, runs or RUNS)
        after = _read(setting)
        sample = sample_of([each.run_id for each in done])
        speeds.append(sign_us())
        result = _result(setting, clients, done, before, after)
        check_events(setting.server, sample)
        setting.server.stop()
        check_signatures(setting.server, sample)
        written = len(done) + WARM_UP_RUNS
        if isinstance(setting.store, PostgresStore):
            result.more |= _late(first, setting.store.counts(), written)
        sizes = per_run(setting.store.sizes(), empty, written)
        floors.append(_floor(setting, clients))
    floor = sum(each.runs_per_s for each in floors) / len(floors)
    result.bytes_per_run = sum(sizes.values())
    result.floor_runs_per_s, result.ratio_to_floor = floor, (result.runs_per_s or 0.0) / floor
    result.more |= {"floor_p50_ms": percentile([f.p50_ms for f in floors], 50)}
    result.more |= {"sign_us": max(speeds), "bytes_by_table": sizes}
    return result


def drive(driver: Driver, clients: int, runs: int) -> list[Finished]:
    """This many runs, divided among the clients."""
    done: list[Finished] = []
    left = iter(range(runs))

    def client() -> Client[None]:
        connection = driver.connect()
        for _ in left:
            began = time.monotonic_ns()
            waiting = yield from driver.start(connection, ONE_ANSWER)
            finished = yield from driver.finish(connection, waiting)
            finished.whole = time.monotonic_ns() - began
            done.append(finished)

    driver.run(*(client() for _ in range(clients)))
    driver.disconnect()
    driver.loop.drop("before")
    return done


def per_run(sizes: dict[str, int], empty: dict[str, int], runs: int) -> dict[str, float]:
    """Bytes a run by table: what was added to the empty store, divided by the runs that it holds."""
    grown = {name: (size - empty.get(name, 0)) / runs for name, size in sizes.items()}
    return {name: size for name, size in sorted(grown.items(), key=lambda item: -item[1]) if size >= 0.5}


def _floor(setting: Setting, clients: int) -> Floor:
    return measure_floor(setting.folder, setting.store.name, setting.floor.url, clients)


def _read(setting: Setting) -> Reading:
    cpu = {
        "server": processes.cpu_s(setting.server.pid),
        "driver": sum(os.times()[:2]),
        "carrier": processes.cpu_s(setting.driver.carrier.pid),
    }
    if setting.store.pid is not None:
        cpu["postgres"] = processes.cpu_s(setting.store.pid)
    return Reading(time.monotonic(), cpu, setting.store.counts(), setting.driver.requests)


def _result(setting: Setting, clients: int, done: list[Finished], before: Reading, after: Reading) -> Result:
    runs, took = len(done), [each.whole / 1e6 for each in done]
    more: dict[str, Any] = {
        "cpu_ms_per_run": {
            name: (after.cpu[name] - before.cpu[name]) * 1e3 / runs for name in sorted(after.cpu)
        },
        "requests_per_run": (after.requests - before.requests) / runs + 1,  # and the carrier's
    }
    if after.counts.log_bytes is not None and before.counts.log_bytes is not None:
        more["log_bytes_per_run"] = (after.counts.log_bytes - before.counts.log_bytes) / runs
    return Result(
        case="B1",
        store=setting.store.name,
        clients=clients,
        n=runs,
        runs_per_s=runs / (after.wall - before.wall),
        p50_ms=percentile(took, 50),
        p99_ms=percentile(took, 99),
        commits_per_run=(after.counts.commits - before.counts.commits) / runs,
        rss_mb=setting.server.rss_mb(),
        more=more,
    )


def _late(first: Counts, last: Counts, runs: int) -> dict[str, float]:
    """What PostgreSQL's processes report late or at their end: over the whole life of the server, warm-up,
    start and checks included.
    """
    found = {}
    for name in ("transactions", "flushes"):
        since, until = getattr(first, name), getattr(last, name)
        if since is not None and until is not None:
            found[f"{name}_per_run"] = (until - since) / runs
    return found
