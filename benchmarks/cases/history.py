"""B4: one run with a long history.

Record many steps, then wait; restart the server, so that nothing is in its memory; answer. The same with
one step is the base: what is over it is the cost of the history.
"""

from typing import Any

from benchmarks.driver import Finished, Waiting
from benchmarks.loop import Client
from benchmarks.report import Result
from benchmarks.samples import percentile
from benchmarks.setting import Setting, open_setting
from benchmarks.stores import MakeStore

STEPS = (1, 1_000, 5_000)
REPEATS = 5


def measure_history(make: MakeStore) -> list[Result]:
    """One result a length; each figure is the median of `REPEATS` runs."""
    with open_setting(make, 1) as setting:
        _record(setting, 1)  # warms up, and so does its answer after the restart
        warm = _record(setting, 1)
        waiting = {steps: [_record(setting, steps) for _ in range(REPEATS)] for steps in STEPS}
        setting.restart()
        _answer(setting, warm)
        done = {steps: [_answer(setting, each) for each in waiting[steps]] for steps in STEPS}
        rss = setting.server.rss_mb()
    base = _median(each.completed for each in done[1])
    started = _median(each.took for each in waiting[1])
    results = []
    for steps in STEPS:
        finished = _median(each.completed for each in done[steps])
        more: dict[str, Any] = {
            "steps": steps,
            "accepted_ms": _median(each.accepted for each in done[steps]),
            "over_one_step_s": (finished - base) / 1e3,
        }
        if steps > 1:
            took = _median(each.took for each in waiting[steps])
            more["record_ms_per_step"] = (took - started) / (steps - 1)
        slowest = max(each.completed for each in done[steps]) / 1e6
        results.append(
            Result(
                case="B4",
                store=setting.store.name,
                clients=1,
                n=REPEATS,
                p50_ms=finished,
                p99_ms=slowest,
                rss_mb=rss,
                more=more,
            )
        )
    return results


def _median(nanoseconds: Any) -> float:
    return percentile([each / 1e6 for each in nanoseconds], 50)


def _record(setting: Setting, steps: int) -> Waiting:
    found: list[Waiting] = []
    body = b'{"script":"bench.many-steps","input":{"steps":%d}}' % steps
    driver = setting.driver

    def client() -> Client[None]:
        found.append((yield from driver.start(driver.connect(), body)))

    driver.run(client())
    driver.disconnect()
    return found[0]


def _answer(setting: Setting, waiting: Waiting) -> Finished:
    found: list[Finished] = []
    driver = setting.driver

    def client() -> Client[None]:
        found.append((yield from driver.finish(driver.connect(), waiting)))

    driver.run(client())
    driver.disconnect()
    return found[0]
