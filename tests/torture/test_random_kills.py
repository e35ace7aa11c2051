"""kill -9 of a real server at random places and moments, and stops, on one deployment of each store.

The seed says which; `ABEYANCE_TEST_KILLS` says how often (default: 120 lives).
"""

import os
from pathlib import Path
from random import Random

import pytest

from tests.e2e.test_kills import STORED
from tests.support.kill_checks import assert_nothing_lost
from tests.support.killing import Place, Victim, victim

pytestmark = pytest.mark.torture

LIVES = int(os.environ.get("ABEYANCE_TEST_KILLS", "120"))
NAMES = (
    "call-recorded",
    "effect-done",
    *(f"{at} {topic}" for at in ("append", "stored") for topic in STORED),
)


class TestKilledServer:
    def test_nothing_acknowledged_is_lost_whenever_it_dies(
        self, store_kind: str, tmp_path: Path, request: pytest.FixtureRequest, seed: int
    ) -> None:
        url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
        rng = Random(seed)
        with victim(tmp_path / "deployment", url) as server:
            died = sum(one_life(server, rng) for _ in range(LIVES))
            server.finish()

            assert died > LIVES // 4
            assert assert_nothing_lost(server) > LIVES // 2


def one_life(server: Victim, rng: Random) -> bool:
    """Killed at a place, if it comes there at all, or by the clock, or stopped as an operator does.

    Returns whether it died of that.
    """
    chance = rng.random()
    place = Place(rng.choice(NAMES), rng.choice((1, 1, 2, 3, 5, 8)))
    if chance < 0.65:
        died = server.live(place, seconds=20)
        server.kill()
    elif chance < 0.85:
        died = server.live(seconds=rng.uniform(0, 0.4))
        server.kill()
    else:
        died = server.live(seconds=rng.uniform(0, 0.4), stopped=True)
    return died
