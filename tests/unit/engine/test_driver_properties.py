"""Live and replay are the same function: random programs, random order of results, random ends.

`ABEYANCE_TEST_EXAMPLES` is the number of examples of each property.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abeyance.errors import DivergenceError
from tests.unit.engine.random_programs import Block, block, play, replayed

ROOT = Path(__file__).parents[3]
EXAMPLES = int(os.environ.get("ABEYANCE_TEST_EXAMPLES") or settings().max_examples)
bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
randoms = st.integers(0, 2**64).map(Random)


class TestReplay:
    @bounded
    @given(randoms, st.booleans())
    def test_it_shows_after_every_event_what_the_live_pass_showed(self, rng: Random, collector: bool) -> None:
        program, game = play(rng)
        if not collector:
            gc.disable()
        try:
            _, trace, snapshots = replayed(program, game)
        finally:
            gc.enable()

        assert game.snapshots == snapshots
        assert game.trace == trace

    @bounded
    @given(randoms)
    def test_letting_go_at_any_version_asks_for_nothing_and_changes_nothing(self, rng: Random) -> None:
        program, game = play(rng)
        until = rng.randint(1, len(game.journal.events))

        driver, trace, _ = replayed(program, game, until)
        seen, wanted = list(trace), driver.wanted()
        driver.close()

        assert wanted == driver.wanted()
        assert seen == [each for each in trace if each[0] != "cancelled"] or seen == trace
        again, trace, snapshots = replayed(program, game, until)
        assert (game.snapshots[until - 1], seen) == (snapshots[-1], trace)
        again.close()

    @bounded
    @given(randoms)
    def test_a_changed_program_diverges_or_fits(self, rng: Random) -> None:
        program, game = play(rng)
        changed = _changed(rng, program)

        outcomes: list[tuple[Any, ...]] = []
        for _ in range(2):
            try:
                _, trace, snapshots = replayed(changed, game)
                outcomes.append((trace, snapshots))
            except DivergenceError as error:
                outcomes.append((error.operation, error.recorded, error.requested, error.line))

        assert outcomes[0] == outcomes[1]

    @bounded
    @given(randoms)
    def test_a_changed_program_without_branches_sees_no_result_of_another_operation(
        self, rng: Random
    ) -> None:
        program = [each for each in block(rng, depth=0) + block(rng, depth=0) if each[0] != "raise"]
        program, game = play(rng, program)
        changed = _changed(rng, program)

        try:
            _, trace, _ = replayed(changed, game)
        except DivergenceError:
            return

        assert game.trace == trace
        reached = len(trace)
        assert list(map(_meaning, changed[:reached])) == list(map(_meaning, program[:reached]))


class TestProcess:
    @pytest.mark.case("I10")
    def test_history_and_trace_are_the_same_under_every_hash_seed_time_zone_and_locale(self) -> None:
        count = str(max(20, EXAMPLES // 5))
        texts = [
            _run(count, PYTHONHASHSEED=seed, TZ=zone, LC_ALL=locale)
            for seed, zone, locale in (("0", "UTC", "C"), ("1", "Asia/Kathmandu", "C.UTF-8"))
        ]

        assert len(texts[0]) > 1_000
        assert texts[0] == texts[1]


def _run(count: str, **environment: str) -> str:
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.engine.random_programs", count],
        env={**os.environ, **environment, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _changed(rng: Random, program: Block) -> Block:
    """The program with one statement, somewhere, left out, repeated, swapped or with another number."""
    copy: Block = [_deep(each) for each in program]
    blocks = [each for each in _blocks(copy) if each]
    if not blocks:
        return copy
    chosen = rng.choice(blocks)
    index = rng.randrange(len(chosen))
    match rng.choice(["leave out", "repeat", "swap", "change"]):
        case "leave out":
            del chosen[index]
        case "repeat":
            chosen.insert(index, _deep(chosen[index]))
        case "swap":
            chosen[index], chosen[-1] = chosen[-1], chosen[index]
        case _:
            chosen[index] = ["call", 1, 9]
    return copy


def _meaning(statement: list[Any]) -> list[Any]:
    """What of a simple statement is part of its operation's identity."""
    kind, _, number = statement
    return {"call": statement, "step": statement, "sleep": [kind, number]}.get(kind, [kind])


def _blocks(program: Block) -> list[Block]:
    inner = [part for each in program for part in each[2:] if isinstance(part, list)]
    return [program, *(found for part in inner for found in _blocks(part))]


def _deep(value: Any) -> Any:
    return [_deep(each) for each in value] if isinstance(value, list) else value
