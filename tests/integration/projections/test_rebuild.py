"""Rebuilding the list of runs while the system runs, and several followers at once, on both stores."""

import asyncio
from uuid import UUID

import pytest

from abeyance.errors import ConflictError
from abeyance.projections.checking import check
from abeyance.projections.read_models import Place
from abeyance.projections.rebuilding import rebuild
from abeyance.projections.runs_list import RunsFilter
from tests.integration.projections.conftest import Deployment, Open, run

pytestmark = pytest.mark.anyio


async def rows(deployment: Deployment) -> list[tuple[object, ...]]:
    """How many rows there are, in all generations."""
    counts = "SELECT (SELECT count(*) FROM runs_list), (SELECT count(*) FROM runs_list_labels)"
    return await deployment.read_models.select(counts, ())


async def no_drift(deployment: Deployment) -> bool:
    async with deployment.journal.snapshot() as snapshot:
        return not (await check(snapshot, deployment.codec)).drift


class TestRebuild:
    async def test_a_damaged_list_is_whole_again(self, deployment: Deployment) -> None:
        for number in range(1, 6):
            await deployment.write(run(number, {"order": "1"}).play("call"))
        await deployment.follower.catch_up()
        await deployment.damage("DELETE FROM runs_list")
        assert [] == await deployment.listed()

        rebuilt = await rebuild(deployment.runs, deployment.journal, deployment.read_models, batch=3)

        assert (2, 10) == (rebuilt.generation, rebuilt.position)
        assert [5, 4, 3, 2, 1] == await deployment.listed(label=("order", "1"))
        assert [(5, 5)] == await rows(deployment)
        assert await no_drift(deployment)

    async def test_a_list_that_was_never_followed_can_be_rebuilt(self, deployment: Deployment) -> None:
        await deployment.write(run(1))

        await rebuild(deployment.runs, deployment.journal, deployment.read_models)

        assert [1] == await deployment.listed()

    async def test_an_empty_journal_can_be_rebuilt(self, deployment: Deployment) -> None:
        rebuilt = await rebuild(deployment.runs, deployment.journal, deployment.read_models)

        assert 0 == rebuilt.position

    async def test_readers_and_writers_go_on_meanwhile(self, deployment: Deployment) -> None:
        """While it is built readers see the old list, whole; what is written meanwhile is in the new one."""
        for number in range(1, 30):
            await deployment.write(run(number))
        await deployment.follower.catch_up()
        seen: list[int] = []
        done = asyncio.Event()

        async def read_and_write() -> None:
            number = 100
            while not done.is_set():
                await deployment.write(run(number))
                await deployment.follower.catch_up()
                page = await deployment.runs.find(RunsFilter(), limit=1000)
                seen.append(len(page.data) - (number - 99))
                number += 1

        reader = asyncio.create_task(read_and_write())
        await rebuild(deployment.runs, deployment.journal, deployment.read_models, batch=5)
        done.set()
        await reader

        assert {29} == set(seen)
        assert await no_drift(deployment)

    async def test_the_older_of_two_rebuilds_gives_up(self, deployment: Deployment) -> None:
        for number in range(1, 4):
            await deployment.write(run(number))
        await deployment.follower.catch_up()
        overtaken = asyncio.Event()

        class Slow:
            name = "runs"

            async def apply(self, place: Place, position: int, batch: object) -> bool:
                if not overtaken.is_set():
                    overtaken.set()
                    await rebuild(deployment.runs, deployment.journal, deployment.read_models)
                return await deployment.runs.apply(place, position, batch)  # type: ignore[arg-type]

        with pytest.raises(ConflictError):
            await rebuild(Slow(), deployment.journal, deployment.read_models)

        assert [3, 2, 1] == await deployment.listed()
        assert [(3, 0)] == await rows(deployment)


class TestSeveralFollowers:
    async def test_every_event_counts_once(self, open_deployment: Open) -> None:
        """Four processes follow at once while runs are written; the list is what the journal says."""
        processes = [await open_deployment() for _ in range(4)]
        authors = [run(number) for number in range(1, 25)]
        for author in authors:
            await processes[0].write(author)

        async def go_on(process: Deployment, mine: int) -> None:
            for author in authors[mine::4]:
                await process.write(author.play("call", "pause 1", "suspend"))
                await process.follower.catch_up()
                await process.write(author.play("answer 1", "completed"))
                await process.follower.catch_up()

        await asyncio.gather(*(go_on(process, place) for place, process in enumerate(processes)))

        assert list(range(24, 0, -1)) == await processes[0].listed(status="completed")
        assert await no_drift(processes[0])

    @pytest.mark.parametrize("store_kind", ["postgres"])  # there is one process on SQLite
    async def test_one_leads_until_it_resigns(self, open_deployment: Open) -> None:
        first, second = await open_deployment(), await open_deployment()

        assert await first.read_models.lead(UUID(int=1), 60)
        assert not await second.read_models.lead(UUID(int=2), 60)
        assert await first.read_models.lead(UUID(int=1), 60)
        await first.read_models.resign(UUID(int=1))
        assert await second.read_models.lead(UUID(int=2), 0)
        assert await first.read_models.lead(UUID(int=1), 60)
