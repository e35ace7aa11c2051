"""The read models' tables: made once, refused when they are newer, written whole or not at all."""

import sqlite3
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from abeyance.errors import ConfigurationError
from abeyance.projections.read_models import NewRun, Place, RunsChanges
from abeyance.projections.runs_list import RunsFilter, query_of
from tests.integration.projections.conftest import Deployment, Open
from tests.unit.projections.histories import START

pytestmark = pytest.mark.anyio


def listed(number: int) -> NewRun:
    return NewRun(UUID(int=number), 1, 1, "pending", "shop.ship-order", {"order": str(number)})


class TestTables:
    async def test_opening_them_again_changes_nothing(self, open_deployment: Open) -> None:
        first = await open_deployment()
        await first.read_models.apply_runs(
            await first.read_models.place("runs"), 3, RunsChanges([listed(1)], [])
        )

        second = await open_deployment()

        assert Place(1, 3) == await second.read_models.place("runs")
        assert [1] == await second.listed()

    async def test_tables_of_a_newer_release_are_refused(
        self, open_deployment: Open, store_kind: str
    ) -> None:
        deployment = await open_deployment()
        values = "(99)" if store_kind == "sqlite" else "(99, 0)"
        await deployment.damage("DELETE FROM read_models_version")
        await deployment.damage(f"INSERT INTO read_models_version VALUES {values}")

        with pytest.raises(ConfigurationError):
            await open_deployment()


class TestApply:
    async def test_rows_and_position_are_written_together_or_not_at_all(self, deployment: Deployment) -> None:
        """The second batch breaks on a row that is there already: nothing of it stays, nor its position."""
        store = deployment.read_models
        place = await store.place("runs")
        assert await store.apply_runs(place, 3, RunsChanges([listed(1)], []))

        with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
            await store.apply_runs(Place(1, 3), 6, RunsChanges([listed(2), listed(1)], []))

        assert Place(1, 3) == await store.place("runs")
        assert [1] == await deployment.listed()

    @pytest.mark.parametrize("place", [Place(1, 1), Place(2, 0), Place(1, 0, live=False)])
    async def test_a_batch_for_another_place_is_not_written(
        self, deployment: Deployment, place: Place
    ) -> None:
        await deployment.read_models.place("runs")

        assert not await deployment.read_models.apply_runs(place, 3, RunsChanges([listed(1)], []))

        assert [] == await deployment.listed()

    async def test_a_generation_that_is_behind_is_not_swapped_in(self, deployment: Deployment) -> None:
        store = deployment.read_models
        await store.apply_runs(await store.place("runs"), 3, RunsChanges([listed(1)], []))
        behind = await store.begin("runs")

        assert not await store.swap("runs", behind.generation)

        assert await store.apply_runs(behind, 3, RunsChanges([listed(1), listed(2)], []))
        assert await store.swap("runs", behind.generation)
        assert Place(2, 3) == await store.place("runs")
        assert [2, 1] == await deployment.listed()


WANTED = [
    RunsFilter(),
    RunsFilter(status="suspended"),
    RunsFilter(definition="shop.ship-order"),
    RunsFilter(label=("order", "1")),
    RunsFilter(status="failed", definition="x", label=("order", "1"), created_from=START - timedelta(days=1)),
]


@pytest.mark.parametrize("store_kind", ["sqlite"])  # PostgreSQL plans by the numbers of rows
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("before", [None, UUID(int=9)])
async def test_a_page_is_read_from_an_index_in_its_order(
    deployment: Deployment, wanted: RunsFilter, before: UUID | None
) -> None:
    text, values = query_of(wanted, before, 50)

    plan = [row[3] for row in await deployment.read_models.select(f"EXPLAIN QUERY PLAN {text}", values)]

    assert [] == [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step]
