"""The list of runs as it follows the journal, on both stores."""

from datetime import timedelta
from uuid import UUID

import pytest

from abeyance.errors import UnknownEventError
from abeyance.journal.events import Event
from abeyance.projections.runs_list import RunsFilter
from tests.integration.projections.conftest import Deployment, run
from tests.unit.projections.histories import SIGNER, START, deployment_rows

pytestmark = pytest.mark.anyio


class TeaServed(Event):
    """What a newer release might write."""

    topic = "tea-served"


class TestRunsList:
    async def test_newest_runs_come_first(self, deployment: Deployment) -> None:
        for number in (2, 3, 1):
            await deployment.write(run(number))

        assert [3, 2, 1] == await deployment.listed()

    async def test_a_run_is_listed_under_the_status_that_it_has_now(self, deployment: Deployment) -> None:
        first, second = run(1), run(2)
        await deployment.write(first.play("call", "pause 1", "suspend"))
        await deployment.write(second)
        before = [await deployment.listed(status=status) for status in ("suspended", "pending", "completed")]
        await deployment.write(first.play("answer 1", "completed"))
        await deployment.write(second.play("call"))

        after = [await deployment.listed(status=status) for status in ("running", "pending", "completed")]

        assert ([[1], [2], []], [[2], [], [1]]) == (before, after)

    async def test_filters_hold_together(self, deployment: Deployment) -> None:
        await deployment.write(run(1, {"order": "ord_1", "shop": "north"}))
        await deployment.write(run(2, {"order": "ord_2", "shop": "north"}).play("completed"))
        await deployment.write(run(3))

        assert [2, 1] == await deployment.listed(label=("shop", "north"))
        assert [1] == await deployment.listed(label=("order", "ord_1"))
        assert [] == await deployment.listed(label=("shop", "ord_1"))
        assert [2] == await deployment.listed(label=("shop", "north"), status="completed")
        assert [3, 2, 1] == await deployment.listed(definition="shop.ship-order")
        assert [] == await deployment.listed(definition="shop.other")
        assert [3, 2, 1] == await deployment.listed(created_from=START)
        assert [] == await deployment.listed(created_before=START)
        assert [3, 1] == await deployment.listed(
            status="pending", definition="shop.ship-order", created_from=START - timedelta(days=1)
        )

    async def test_pages_follow_each_other_without_gaps(self, deployment: Deployment) -> None:
        for number in range(1, 8):
            await deployment.write(run(number, {"shop": "north"}))
        await deployment.follower.catch_up()

        for wanted in (RunsFilter(), RunsFilter(status="pending"), RunsFilter(label=("shop", "north"))):
            seen, cursor = list[int](), None
            while True:
                page = await deployment.runs.find(wanted, limit=3, cursor=cursor)
                seen += [run_id.int for run_id in page.data]
                cursor = page.next_cursor
                if cursor is None:
                    break

            assert [7, 6, 5, 4, 3, 2, 1] == seen

    async def test_what_comes_between_two_pages_moves_nothing(self, deployment: Deployment) -> None:
        for number in (1, 2, 3, 4):
            await deployment.write(run(number))
        await deployment.follower.catch_up()
        first = await deployment.runs.find(RunsFilter(), limit=2)
        await deployment.write(run(9))
        await deployment.follower.catch_up()

        second = await deployment.runs.find(RunsFilter(), limit=2, cursor=first.next_cursor)

        assert ([4, 3], [2, 1]) == (
            [run_id.int for run_id in first.data],
            [run_id.int for run_id in second.data],
        )

    async def test_other_streams_are_passed_over(self, deployment: Deployment) -> None:
        rows = deployment_rows()
        await deployment.journal.append_stream(rows[0].run_id, 0, rows)
        await deployment.write(run(1))

        assert [1] == await deployment.listed()

    async def test_a_damaged_first_event_leaves_out_its_run_only(self, deployment: Deployment) -> None:
        await deployment.write(run(1))
        await deployment.write(run(2))
        await deployment.damage_event(UUID(int=1), 1, state=b"\x00" * 90)

        assert [2] == await deployment.listed()

    async def test_an_event_of_a_newer_release_stops_it_loudly(self, deployment: Deployment) -> None:
        await deployment.write(run(1))
        await deployment.listed()
        stream, signer = UUID(int=5), SIGNER
        row, _ = deployment.codec.seal(
            TeaServed(), stream=stream, version=1, prev=None, at=START, signer=signer
        )
        await deployment.journal.append_stream(stream, 0, [row])

        with pytest.raises(UnknownEventError):
            await deployment.listed()
