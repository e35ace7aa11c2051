"""B2: how long after the answer is sent the run has gone on and completed.

One run after the other: start it, let it rest for `PARKED_S` after it was seen suspended, have it
answered. Times count from the carrier's sending of the answer.
"""

from benchmarks.driver import ONE_ANSWER, Finished
from benchmarks.loop import Client
from benchmarks.report import Result
from benchmarks.samples import percentile
from benchmarks.setting import Setting, open_setting
from benchmarks.speed import sign_us
from benchmarks.stores import MakeStore

SAMPLES = 300
WARM_UP_RUNS = 50
PARKED_S = 0.02


def measure_latency(make: MakeStore, clients: int, runs: int | None) -> Result:
    """One series."""
    with open_setting(make, clients) as setting:
        _drive(setting, clients, WARM_UP_RUNS)
        done = _drive(setting, clients, runs or SAMPLES)
        rss, speed = setting.server.rss_mb(), sign_us()
    completed = [each.completed / 1e6 for each in done]
    return Result(
        case="B2",
        store=setting.store.name,
        clients=clients,
        n=len(done),
        p50_ms=percentile(completed, 50),
        p99_ms=percentile(completed, 99),
        rss_mb=rss,
        more=parts(done) | {"parked_ms": PARKED_S * 1e3, "sign_us": speed},
    )


def parts(done: list[Finished]) -> dict[str, float]:
    """The way of an answer: accepted (the carrier has its 200), next step running."""
    accepted, ran = [each.accepted / 1e6 for each in done], [each.next_step / 1e6 for each in done]
    return {
        "accepted_p50_ms": percentile(accepted, 50),
        "accepted_p99_ms": percentile(accepted, 99),
        "next_step_p50_ms": percentile(ran, 50),
        "next_step_p99_ms": percentile(ran, 99),
    }


def _drive(setting: Setting, clients: int, samples: int) -> list[Finished]:
    done: list[Finished] = []
    left = iter(range(samples))
    driver = setting.driver

    def client() -> Client[None]:
        connection = driver.connect()
        for _ in left:
            waiting = yield from driver.start(connection, ONE_ANSWER)
            yield PARKED_S
            done.append((yield from driver.finish(connection, waiting)))

    driver.run(*(client() for _ in range(clients)))
    driver.disconnect()
    return done
