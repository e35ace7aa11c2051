"""The follower: everything once, whatever happens in between."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast
from uuid import UUID

import pytest

from abeyance.errors import StoreUnavailableError, UnknownEventError
from abeyance.journal.store import JournalStore
from abeyance.projections.follower import Follower
from tests.unit.projections.memory import MemoryJournal, MemoryModel, MemoryReadModels

pytestmark = pytest.mark.anyio


class Process:
    """One process's follower over shared journal and tables."""

    def __init__(self, journal: MemoryJournal, store: MemoryReadModels, number: int = 1) -> None:
        self.journal = journal
        self.store = store
        self.model = MemoryModel(store)
        self.follower = Follower(
            cast(JournalStore, journal), store, [self.model], holder=UUID(int=number), batch=3, busy_s=0.001,
            idle_s=0.004, lease_s=0.05,
        )  # fmt: skip

    async def until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not claim():
                await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.follower.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
def process(anyio_backend: str) -> Process:
    return Process(MemoryJournal(), MemoryReadModels())


class TestCatchUp:
    async def test_it_applies_all_that_is_committed_in_order(self, process: Process) -> None:
        process.journal.committed = 10

        assert await process.follower.catch_up()

        assert list(range(1, 11)) == process.model.versions

    async def test_it_does_what_fits_into_the_time_and_says_so(self, process: Process) -> None:
        process.journal.committed = 10

        assert not await process.follower.catch_up(within_s=0)

        assert [1, 2, 3] == process.model.versions

    async def test_nothing_is_applied_twice_by_two_processes(self, process: Process) -> None:
        """The other one wins the first batch between reading and writing; both go on."""
        other = Process(process.journal, process.store, 2)
        process.journal.committed = 12
        process.journal.sealed = 12
        turns = iter([True])

        def let_the_other_win() -> None:
            if next(turns, False):
                place = process.store.places["memory"]
                other.model.versions += [1, 2]
                process.store.places["memory"] = place._replace(position=2)

        process.model.before = let_the_other_win
        await process.follower.catch_up()

        assert list(range(1, 13)) == other.model.versions + process.model.versions

    async def test_a_generation_that_was_swapped_in_is_followed_from_its_own_position(
        self, process: Process
    ) -> None:
        process.journal.committed = 6
        await process.follower.catch_up()
        process.store.places["memory"] = process.store.places["memory"]._replace(generation=2)
        process.journal.committed = 9

        await process.follower.catch_up()

        assert (2, 9) == process.store.places["memory"][:2]
        assert list(range(1, 10)) == process.model.versions

    async def test_it_tells_its_caller_when_the_store_is_gone(self, process: Process) -> None:
        process.journal.fail = [StoreUnavailableError()]

        with pytest.raises(StoreUnavailableError):
            await process.follower.catch_up()


class TestRun:
    async def test_it_follows_what_is_committed_while_it_runs(self, process: Process) -> None:
        async with process.running():
            process.journal.committed = 4
            await process.until(lambda: len(process.model.versions) == 4)
            process.journal.committed = 9
            process.follower.wake()
            await process.until(lambda: len(process.model.versions) == 9)

        assert list(range(1, 10)) == process.model.versions

    async def test_a_store_that_was_gone_is_followed_again(
        self, process: Process, caplog: pytest.LogCaptureFixture
    ) -> None:
        process.journal.fail = [StoreUnavailableError(), StoreUnavailableError()]
        process.journal.committed = 4

        async with process.running():
            await process.until(lambda: len(process.model.versions) == 4)

        assert [logging.WARNING] == [record.levelno for record in caplog.records]

    async def test_an_unknown_event_is_loud_and_lets_another_process_lead(
        self, process: Process, caplog: pytest.LogCaptureFixture
    ) -> None:
        process.journal.committed = 1
        process.journal.fail = [UnknownEventError("tea-served", 1)]
        newer = Process(process.journal, process.store, 2)

        async with process.running(), newer.running():
            await process.until(lambda: bool(newer.model.versions))

        assert [logging.ERROR] == [record.levelno for record in caplog.records]
        assert "tea-served" in caplog.text

    async def test_one_process_leads_and_another_takes_over_when_it_ends(self, process: Process) -> None:
        other = Process(process.journal, process.store, 2)
        async with other.running():
            await other.until(lambda: process.store.leader == UUID(int=2))
            async with process.running():
                process.journal.committed = 5
                await other.until(lambda: len(other.model.versions) == 5)
                assert [] == process.model.versions
        async with process.running():
            process.journal.committed = 8
            await process.until(lambda: process.model.versions == [6, 7, 8])

        assert None is process.store.leader

    async def test_it_looks_less_often_while_nothing_happens(self, process: Process) -> None:
        process.follower = Follower(
            cast(JournalStore, process.journal), process.store, [process.model], holder=UUID(int=1),
            busy_s=0.001, idle_s=60, batch=3,
        )  # fmt: skip

        async with process.running():
            await asyncio.sleep(0.3)
            looks = process.journal.looks
            process.journal.committed = 1
            process.follower.wake()
            await process.until(lambda: process.model.versions == [1])

        assert looks < 12
