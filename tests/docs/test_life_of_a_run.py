"""`docs/explanation/life-of-a-run.md`: its commits, and a process that dies at each point, on both stores.

A process "dies" by standing at a named place while its leases run out and another one goes on. When it wakes
up after that, it can do no harm.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from abeyance.engine.packs import load_pack
from tests.support.barriers import Places
from tests.support.carrier import expire_leases
from tests.support.engine import Deployment, EngineProcess
from tests.support.pages import DOCS, ROOT, codes, tables

pytestmark = pytest.mark.anyio

PAGE = DOCS / "explanation" / "life-of-a-run.md"
INPUT = b'{"orderId":"ord_1001"}'
ANSWER = b'{"pickupAt":"2026-10-25T09:00:00Z","pickupId":"pk_7"}'
SHIP = load_pack("shop", ROOT / "examples" / "shop").definitions.flows["shop.ship-order"]

# Where each row of the page's last table is in the engine (the whole name, or its beginning and a topic), and
# whether it is so where the run is kept at hand.
DEATHS = [
    ("append:started,call-started", "", ("warm", "cold")),
    ("call-recorded", "", ("warm", "cold")),
    ("effect-done", "", ("warm", "cold")),
    ("stored:call-paused,suspended", "", ("warm", "cold")),
    ("append:", "wait-token-completed", ("warm", "cold")),
    ("stored:wait-token-completed,completed", "", ("warm",)),
    ("stored:wait-token-completed", "", ("cold",)),
]


class Passages(Places):
    """The places that one run passed, and which run it was."""

    run_id: UUID

    async def __call__(self, place: str, run_id: UUID) -> None:
        self.run_id = run_id
        await super().__call__(place, run_id)


class Shop:
    """Who starts the run, and the carrier, who reads what it was handed from a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def links(self) -> list[str]:
        """All links that the tool handed out."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line)["callbackUrl"] for line in lines]

    async def ship(self, process: EngineProcess) -> UUID:
        """Start the run, and answer once it waits."""
        view = await process.start(SHIP, INPUT)
        await process.answer(self.links()[-1], ANSWER)
        return view.id


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("SHOP_CARRIER_FILE", str(tmp_path / "carrier.jsonl"))
    return Shop(tmp_path / "carrier.jsonl")


def rows_of_deaths() -> Iterator[object]:
    """Each row of the page with its place, in each mode that has it."""
    rows = tables(PAGE, "If the process dies")[0]
    for number, (row, (place, topic, modes)) in enumerate(zip(rows, DEATHS, strict=True)):
        for mode in modes:
            yield pytest.param(row, place, topic, mode, id=f"{number}-{mode}")


class TestCommits:
    async def test_are_those_of_the_page(self, deployment: Deployment, shop: Shop) -> None:
        """The first table where the run is kept at hand, the second where it isn't."""
        at_hand, elsewhere = tables(PAGE, "The commits")
        places = Passages()

        async with deployment.process(SHIP, barrier=places) as process:
            run_id = await shop.ship(process)
            await process.settled(run_id)

        written = [
            place.removeprefix("stored:").split(",") for place in places.passed if place.startswith("stored:")
        ]
        expected = elsewhere if deployment.hot_runs == 0 else at_hand
        assert [codes(events) for _, events, _ in expected] == written


class TestDeath:
    @pytest.mark.parametrize(
        ("row", "place", "topic", "hot_runs"), list(rows_of_deaths()), indirect=["hot_runs"]
    )
    async def test_loses_nothing_and_whoever_goes_on_decides_the_rest(
        self, row: list[str], place: str, topic: str, deployment: Deployment, shop: Shop
    ) -> None:
        """What is on disk, and what another process makes of it; then the carrier answers, perhaps again."""
        on_disk, then = codes(row[1]), codes(row[2])
        places = Passages()
        async with deployment.process(SHIP, barrier=places, loops=False) as dead:
            stop = places.stop(place, topic)
            asked = asyncio.create_task(shop.ship(dead))
            async with stop, deployment.process(SHIP) as other:
                assert on_disk == await stored_topics(other, places.run_id)

                expire_leases(deployment)
                run_id = places.run_id if on_disk else (await other.start(SHIP, INPUT)).id
                expected = (
                    on_disk + then if on_disk else ["started", "call-started", "call-paused", "suspended"]
                )
                await other.settled(run_id, "completed" if "completed" in expected else "suspended")
                assert expected == await other.topics(run_id)

                for link in shop.links():
                    await other.answer(link, ANSWER)
                assert ANSWER == (await other.settled(run_id)).output
            await asyncio.gather(asked, return_exceptions=True)
            assert expected[:4] == (await dead.topics(run_id))[:4]


async def stored_topics(process: EngineProcess, run_id: UUID) -> list[str]:
    """The run's events on disk; none if it isn't there."""
    stored = await process.store.read_run(run_id)
    return [] if stored is None else [event.topic for event in stored.events]
