"""Two: two different answers to one link at the same moment.

The step after the wait must run once, and the second sender must be told what became of the wait.
"""

import json
from collections.abc import Generator
from typing import Any

from benchmarks.driver import ANSWER, ONE_ANSWER, Answered
from benchmarks.errors import BenchmarkError
from benchmarks.loop import Client, Mail
from benchmarks.report import Result
from benchmarks.setting import open_setting
from benchmarks.stores import MakeStore

PAIRS = 50
SETTLE_S = 0.05
OTHER = ANSWER.replace(b"true", b"false")


def measure_two_answers(make: MakeStore) -> Result:
    """One series of pairs. Raises `BenchmarkError` if a step runs twice or both senders hear the same."""
    told: dict[str, int] = {}
    with open_setting(make, 2) as setting:
        driver = setting.driver

        def client() -> Client[None]:
            connection = driver.connect()
            for _ in range(PAIRS):
                waiting = yield from driver.start(connection, ONE_ANSWER)
                name = waiting.run_id
                driver.answer(f"{name}/1", waiting.link)
                driver.answer(f"{name}/2", waiting.link, OTHER)
                answers = yield from _both(name)
                yield Mail("after", name)
                yield SETTLE_S  # a second run of the step would have been heard by then
                if name in driver.loop.kept("after"):
                    raise BenchmarkError(f"the step after the wait of run {name} ran twice")
                loser = _loser(name, answers)
                state = _told(loser)
                told[state] = told.get(state, 0) + 1

        driver.run(client())
        driver.disconnect()
    return Result(
        case="TWO",
        store=setting.store.name,
        clients=2,
        n=PAIRS,
        more={"step_ran_twice": 0, "second_told": told},
    )


def _both(name: str) -> Generator[Mail, Any, list[Answered]]:
    first: Answered = yield Mail("answered", f"{name}/1")
    second: Answered = yield Mail("answered", f"{name}/2")
    return [first, second]


def _loser(name: str, answers: list[Answered]) -> Answered:
    statuses = sorted(answer.status for answer in answers)
    if statuses != [200, 409]:
        raise BenchmarkError(f"the two answers to run {name} got {[(a.status, a.body) for a in answers]}")
    return max(answers, key=lambda answer: answer.status)


def _told(loser: Answered) -> str:
    """The code of the refusal, and what it says that became of the wait."""
    error = json.loads(loser.body)["error"]
    return f"{error['code']}: {error.get('details', {}).get('state', error['message'])}"
