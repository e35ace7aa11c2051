"""B3: many runs that wait.

Fill the store with waiting runs, measure the bytes that each takes and the memory of the idle server;
then kill -9 the server, start it, and see how long it takes until one run is answered and done; then
answer runs at random. None of those is in the server's memory: it was started after they were parked.
"""

import random
import time

from benchmarks import processes
from benchmarks.cases.latency import parts
from benchmarks.cases.throughput import drive, per_run
from benchmarks.driver import ONE_ANSWER, Driver, Finished, Waiting
from benchmarks.loop import Client
from benchmarks.report import Result
from benchmarks.samples import percentile
from benchmarks.setting import Setting, open_setting
from benchmarks.stores import MakeStore, settle

RUNS = 20_000
LOADERS = 16
WARM_UP_RUNS = 50
SAMPLES = 200
IDLE_S = 2.0
SEED = 1


def measure_waiting(make: MakeStore, runs: int | None) -> Result:
    """One series, at one client after the load."""
    with open_setting(make, LOADERS) as setting:
        server, store = setting.server, setting.store
        drive(setting.driver, 1, WARM_UP_RUNS)
        empty_mb, empty = _idle(setting)
        began = time.monotonic()
        waiting = _load(setting.driver, runs or RUNS)
        loaded_s = time.monotonic() - began
        settle(store)
        full_mb, _ = _idle(setting, sizes=False)
        _stop_if(setting)
        bytes_by_table = per_run(store.sizes(), empty, len(waiting))
        _start_if(setting)
        random.Random(SEED).shuffle(waiting)
        back_s = _kill_and_answer(setting, waiting.pop())
        time.sleep(IDLE_S)
        again_mb, threads = server.rss_mb(), processes.threads(server.pid)
        done = _answer(setting.driver, waiting[:SAMPLES])
    took = [each.completed / 1e6 for each in done]
    return Result(
        case="B3",
        store=store.name,
        clients=1,
        n=runs or RUNS,
        runs_per_s=(runs or RUNS) / loaded_s,
        p50_ms=percentile(took, 50),
        p99_ms=percentile(took, 99),
        bytes_per_run=sum(bytes_by_table.values()),
        rss_mb=again_mb,
        more=parts(done)
        | {
            "killed_to_done_s": back_s,
            "rss_empty_mb": empty_mb,
            "rss_after_load_mb": full_mb,
            "threads": threads,
            "bytes_by_table": bytes_by_table,
        },
    )


def _idle(setting: Setting, *, sizes: bool = True) -> tuple[float, dict[str, int]]:
    """Memory of the server after a pause in which nothing is asked of it, and the store's sizes."""
    settle(setting.store)
    time.sleep(IDLE_S)
    memory = setting.server.rss_mb()
    if not sizes:
        return memory, {}
    _stop_if(setting)
    found = setting.store.sizes()
    _start_if(setting)
    return memory, found


def _stop_if(setting: Setting) -> None:
    if setting.store.sizes_need_stop():
        setting.server.stop()


def _start_if(setting: Setting) -> None:
    if setting.store.sizes_need_stop():
        setting.server.start()


def _load(driver: Driver, runs: int) -> list[Waiting]:
    waiting: list[Waiting] = []
    left = iter(range(runs))

    def client() -> Client[None]:
        connection = driver.connect()
        for _ in left:
            waiting.append((yield from driver.start(connection, ONE_ANSWER)))

    driver.run(*(client() for _ in range(LOADERS)))
    driver.disconnect()
    driver.loop.drop("before")
    return waiting


def _kill_and_answer(setting: Setting, waiting: Waiting) -> float:
    """Seconds from kill -9 until a run was answered and has completed. The carrier tries until it can."""
    began = time.monotonic()
    setting.server.kill()
    setting.server.launch()

    def client() -> Client[None]:
        driver = setting.driver
        driver.answer(waiting.run_id, waiting.link)
        yield from driver.completed(waiting.run_id)

    setting.driver.run(client())
    took = time.monotonic() - began
    setting.driver.disconnect()
    return took


def _answer(driver: Driver, waiting: list[Waiting]) -> list[Finished]:
    done: list[Finished] = []

    def client() -> Client[None]:
        connection = driver.connect()
        for each in waiting:
            done.append((yield from driver.finish(connection, each)))

    driver.run(client())
    driver.disconnect()
    return done
