"""kill -9 of a real server at every place where it writes or acts, on both stores.

One deployment lives through all of it: each life starts runs, takes up those of the lives before, and is
killed at one place. The last one isn't.
"""

from pathlib import Path

import pytest

from tests.support.kill_checks import assert_nothing_lost
from tests.support.killing import Place, victim

pytestmark = pytest.mark.slow

# tests/torture goes through all places and passages; here each topic is stored once, and some are not.
STORED = (
    "started", "value-recorded", "step-completed", "call-started", "call-completed", "call-failed",
    "retry-scheduled", "timer-set", "suspended", "call-paused", "wait-token-completed", "timer-fired",
    "race-decided", "wait-token-timed-out", "completed",
)  # fmt: skip
LOST = ("started", "call-completed", "call-paused", "wait-token-completed", "timer-fired", "completed")
PLACES = (
    *(Place(f"append {topic}") for topic in LOST),
    *(Place(f"stored {topic}") for topic in STORED),
    *(Place(name, nth) for name in ("call-recorded", "effect-done") for nth in (1, 4)),
)


class TestKilledServer:
    @pytest.mark.case("A01", "A05", "A14", "I09", "L07", "G14", "J05")
    def test_nothing_acknowledged_is_lost_at_any_place(
        self, store_kind: str, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        """Every run ends right, its journal verifies, a replay agrees, its rows follow."""
        url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
        with victim(tmp_path / "deployment", url) as server:
            survived = [str(place) for place in PLACES if not server.live(place)]
            server.finish()

            assert [] == survived
            assert len(PLACES) < assert_nothing_lost(server)
