"""Random programs under random answers, crashes, cancels and time: each ends right, and replays alike."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abeyance.journal import events as e
from tests.support.chaos import FLOWS, PROGRAMS, TAKEN, Chaos, World
from tests.support.engine import SIGNER, Deployment
from tests.support.standing import assert_effects_recorded, assert_rows_follow, assert_run_stands

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PUBLIC_KEYS = {SIGNER.kid: SIGNER.public_key}
MOVES = 25
FEWER = settings(
    max_examples=max(5, settings().max_examples // 5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class TestAnyProgram:
    @FEWER
    @given(program=PROGRAMS, seed=st.integers(0, 2**32))
    async def test_a_script_ends_right_whatever_happens_to_it(
        self, deployment: Deployment, program: Any, seed: int
    ) -> None:
        world = World(Random(seed))
        await _play(deployment, world, world.script(program), seed)

    @FEWER
    @given(steps=FLOWS, seed=st.integers(0, 2**32))
    async def test_a_flow_ends_right_whatever_happens_to_it(
        self, deployment: Deployment, steps: Any, seed: int
    ) -> None:
        world = World(Random(seed))
        await _play(deployment, world, world.flow(steps), seed)


async def _play(deployment: Deployment, world: World, definition: Any, seed: int) -> None:
    chaos = Chaos(deployment, world)
    known = (definition, *world.tools)
    async with (
        deployment.process(*known) as one,
        deployment.process(*known) as two,
        deployment.process(*known, loops=False) as three,
    ):
        three.executor._draining = True  # it takes answers, and executes nothing
        run_id = await chaos.play([one, two, three], definition, MOVES)
    desk = deployment.desk()
    stored = await assert_run_stands(
        deployment.store, deployment.keys, desk, chaos.definitions(definition), run_id, PUBLIC_KEYS
    )
    assert_effects_recorded(desk, stored, world.ran[str(run_id)])
    if seed % 10 == 0:
        await assert_rows_follow(deployment.store, desk)
    _assert_replies_agree([desk.codec.open(row).event for row in stored.events], chaos)


def _assert_replies_agree(events: list[Any], chaos: Chaos) -> None:
    """Who was told that an answer counts finds it in the journal, once, and nobody was told so of another."""
    answered = [each.wait for each in events if isinstance(each, e.WaitTokenAnswered)]
    completed = [each.wait for each in events if isinstance(each, e.WaitTokenCompleted)]
    timed_out = {each.wait for each in events if isinstance(each, e.WaitTokenTimedOut)}
    assert len(answered) == len(set(answered))
    assert len(completed) == len(set(completed))
    assert set() == timed_out & {*answered, *completed}
    for wait, said in chaos.said.items():
        taken = {value for value, _, told in (each.rpartition(" ") for each in said) if told == TAKEN}
        assert len(taken) <= 1, said
        if taken:
            assert wait in {*answered, *completed}
        if any(each.endswith(" timed-out") for each in said):
            assert wait in timed_out or not {*answered, *completed} & {wait}
