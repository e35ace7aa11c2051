"""The list of open waits on both stores: order, filters, pages, and what a check finds."""

from typing import Any
from uuid import UUID

import pytest

from abeyance.errors import InvalidCursorError
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.projections.checking import check
from abeyance.projections.rebuilding import rebuild
from abeyance.projections.waits_list import WaitsFilter, format_cursor, parse_cursor, query_of
from tests.integration.projections.conftest import Deployment, run
from tests.unit.projections.histories import Author, begin

pytestmark = pytest.mark.anyio


def paused(number: int) -> Author:
    """A run that waits for an answer."""
    return begin(UUID(int=number)).play("call", "pause 1", "suspend")


async def drift(deployment: Deployment) -> list[tuple[str, str, str]]:
    async with deployment.journal.snapshot() as snapshot:
        found = (await check(snapshot, deployment.codec)).drift
    return [(each.model, each.row, each.column) for each in found]


class TestWaitsList:
    async def test_it_shows_what_a_run_waits_for(self, deployment: Deployment) -> None:
        author = await deployment.write(paused(1))
        await deployment.follower.catch_up()

        (wait,) = (await deployment.waits.find(WaitsFilter(), limit=9)).data

        (key,) = author.now.waits
        assert (key, "token", "waiting") == (wait.id, wait.kind, wait.state)
        assert ("the confirmation", "shop.request-pickup", "0.1.0") == (
            wait.name, wait.tool_id, wait.tool_version,
        )  # fmt: skip
        assert ("1", "shop:31", "default") == (wait.node, wait.line, wait.project)
        assert author.now.waits[key].paused_at == wait.created_at

    async def test_a_call_whose_run_has_not_paused_is_not_listed(self, deployment: Deployment) -> None:
        await deployment.write(begin(UUID(int=1)).play("call"))

        assert [] == await deployment.waiting()

    @pytest.mark.parametrize(
        "moves",
        [
            ("answer 1",), ("time out 1",), ("cancelled",), ("completed",), ("failed",),
        ],
    )  # fmt: skip
    async def test_a_closed_wait_is_listed_no_more(
        self, deployment: Deployment, moves: tuple[str, ...]
    ) -> None:
        author = await deployment.write(paused(1))
        assert 1 == len(await deployment.waiting())

        await deployment.write(author.play(*moves))

        assert [] == await deployment.waiting()

    async def test_the_losers_of_a_race_are_listed_no_more(self, deployment: Deployment) -> None:
        author = await deployment.write(begin(UUID(int=1)).play("branches", "pause 1.b1.1", "timer"))
        before = len(await deployment.waiting())

        await deployment.write(author.play("decide 1"))

        assert (2, [(1, "timer:2")]) == (before, await deployment.waiting())

    async def test_the_oldest_comes_first_and_pages_miss_nothing(self, deployment: Deployment) -> None:
        """Though waits are opened and closed between the pages."""
        authors = [await deployment.write(paused(number)) for number in (5, 3, 9, 1, 7)]
        await deployment.follower.catch_up()
        whole = await deployment.waiting()
        found, cursor = [], None
        while True:
            page = await deployment.waits.find(WaitsFilter(), limit=2, cursor=cursor)
            found += [(wait.run_id.int, wait.id) for wait in page.data]
            cursor = page.next_cursor
            if cursor is None:
                break
            if len(found) == 2:
                await deployment.write(authors[4].play("cancelled"))
                await deployment.write(paused(2))
                await deployment.follower.catch_up()

        assert sorted(whole, key=lambda each: each[0]) == whole
        assert {1, 3, 5, 9} <= {number for number, _ in found}
        assert len(found) == len(set(found))

    @pytest.mark.parametrize(
        ("wanted", "numbers"),
        [
            ({"kind": "token"}, [1, 2]), ({"kind": "timer"}, [3]), ({"kind": "retry"}, []),
            ({"name": "the confirmation"}, [1, 2]), ({"name": "another"}, []),
            ({"tool": "shop.request-pickup"}, [1, 2]), ({"run_id": UUID(int=2)}, [2]),
            ({"run_id": UUID(int=2), "kind": "timer"}, []), ({"workspace": "other"}, []),
            ({"project": "default"}, [1, 2, 3]), ({"project": "other"}, []),
        ],
    )  # fmt: skip
    async def test_filters_all_hold(
        self, deployment: Deployment, wanted: dict[str, Any], numbers: list[int]
    ) -> None:
        for author in (paused(1), paused(2), run(3).play("timer", "suspend")):
            await deployment.write(author)

        assert numbers == [number for number, _ in await deployment.waiting(**wanted)]

    @pytest.mark.parametrize(
        ("wanted", "index"),
        [
            ({}, "waits_list_since"), ({"kind": "token"}, "waits_list_since"),
            ({"kind": "timer"}, "waits_list_kind"), ({"name": "x"}, "waits_list_name"),
            ({"tool": "x"}, "waits_list_tool"), ({"project": "x"}, "waits_list_since"),
        ],
    )  # fmt: skip
    async def test_each_filter_is_looked_up_in_the_order_of_the_list(
        self, deployment: Deployment, wanted: dict[str, Any], index: str
    ) -> None:
        """No page sorts. (Of PostgreSQL's plans a benchmark tells.)"""
        if not isinstance(deployment.journal, SQLiteJournalStore):
            pytest.skip("its planner goes by how full a table is")
        text, values = query_of(WaitsFilter(**wanted), (5, UUID(int=1), 7), 50)

        plan = await deployment.read_models.select(f"EXPLAIN QUERY PLAN {text}", values)

        steps = " ".join(str(row[-1]) for row in plan)
        assert f"USING INDEX {index} " in steps
        assert "TEMP B-TREE" not in steps

    async def test_a_runs_waits_are_found_by_its_id(self, deployment: Deployment) -> None:
        if not isinstance(deployment.journal, SQLiteJournalStore):
            pytest.skip("its planner goes by how full a table is")
        text, values = query_of(WaitsFilter(run_id=UUID(int=1)), None, 50)

        plan = await deployment.read_models.select(f"EXPLAIN QUERY PLAN {text}", values)

        assert "USING PRIMARY KEY (generation=? AND run_id=?)" in " ".join(str(row[-1]) for row in plan)

    async def test_a_moved_deadline_is_shown(self, deployment: Deployment) -> None:
        author = await deployment.write(paused(1))
        await deployment.write(author.play("extend 1"))
        await deployment.follower.catch_up()

        (wait,) = (await deployment.waits.find(WaitsFilter(), limit=9)).data

        (pending,) = author.now.waits.values()
        assert wait.due_at is not None
        assert pending.row.due == int(wait.due_at.timestamp() * 1_000_000)

    @pytest.mark.parametrize("cursor", ["", "w", "dw", "cnVucw", "!", "d1tdMQ", "d1sxLCJ4IiwieSJd"])
    async def test_a_cursor_of_another_list_is_refused(self, deployment: Deployment, cursor: str) -> None:
        with pytest.raises(InvalidCursorError):
            await deployment.waits.find(WaitsFilter(), limit=1, cursor=cursor)

    def test_a_cursor_names_a_place_in_the_list(self) -> None:
        row = (UUID(int=7), 9, "timer a", "default", "default", 5)

        assert (5, UUID(int=7), 9) == parse_cursor(format_cursor(row))


class TestCheck:
    @pytest.mark.parametrize(
        ("column", "value"), [("since", 5), ("due", 5), ("kind", "timer"), ("name", "x"), ("line", "x")]
    )
    async def test_a_changed_column_is_found(
        self, deployment: Deployment, column: str, value: object
    ) -> None:
        author = await deployment.write(paused(1))
        await deployment.follower.catch_up()

        await deployment.damage(f"UPDATE waits_list SET {column} = $1", (value,))

        assert [("waits_list", next(iter(author.now.waits)), column)] == await drift(deployment)

    async def test_a_missing_and_a_stray_row_are_found(self, deployment: Deployment) -> None:
        author = await deployment.write(paused(1))
        await deployment.write(paused(2))
        await deployment.follower.catch_up()
        (key,) = author.now.waits

        await deployment.damage("UPDATE waits_list SET key = 'timer 9' WHERE run_id = $1", (UUID(int=1),))

        assert [("waits_list", key, ""), ("waits_list", "timer 9", "")] == await drift(deployment)

    async def test_rows_of_nobodys_run_are_found(self, deployment: Deployment) -> None:
        await deployment.write(paused(1))
        await deployment.follower.catch_up()

        await deployment.damage("UPDATE waits_list SET run_id = $1", (UUID(int=77),))

        models = [model for model, _, _ in await drift(deployment)]
        assert ["waits_list", "waits_list"] == models

    async def test_a_list_that_is_behind_is_no_drift(self, deployment: Deployment) -> None:
        author = await deployment.write(paused(1))
        await deployment.follower.catch_up()
        await deployment.write(author.play("answer 1"))
        await deployment.write(paused(2))

        assert [] == await drift(deployment)
        await deployment.journal.seal(100)
        assert [] == await drift(deployment)

    async def test_a_rebuilt_list_is_the_same(self, deployment: Deployment) -> None:
        for number in (1, 2, 3):
            await deployment.write(paused(number))
        before = await deployment.waiting()
        await deployment.damage("DELETE FROM waits_list WHERE run_id = $1", (UUID(int=2),))

        await rebuild(deployment.waits, deployment.journal, deployment.read_models)

        assert before == await deployment.waiting()
        assert [] == await drift(deployment)
