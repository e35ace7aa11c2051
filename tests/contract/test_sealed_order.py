"""What every store promises of the sealed order: gap-free, stable, and true to every stream."""

import asyncio
from collections import defaultdict
from uuid import UUID

import pytest

from abeyance.journal.store import JournalStore, SealedEvent
from tests.contract.rows import event, follow, new_id, start

pytestmark = pytest.mark.anyio


async def seal_all(store: JournalStore, size: int, *, limit: int = 1_000) -> int:
    """Seal until there are `size` sealed events: on PostgreSQL a foreign transaction may hold one back."""
    async with asyncio.timeout(20):
        while (sealed := await store.seal(limit)) < size:
            await asyncio.sleep(0.01)
    return sealed


async def read_all(store: JournalStore, page: int) -> list[SealedEvent]:
    found: list[SealedEvent] = []
    while rows := await store.read_sealed(len(found), page):
        found += rows
    return found


class TestSeal:
    async def test_an_empty_journal_is_sealed(self, store: JournalStore) -> None:
        assert 0 == await store.seal(10)
        assert [] == await store.read_sealed(0, 10)

    async def test_events_get_their_index_once(self, store: JournalStore) -> None:
        first = start(events=3)
        await store.append([first])

        assert [] == await store.read_sealed(0, 10)
        assert 3 == await seal_all(store, 3)
        assert 3 == await store.seal(10)
        expected = [SealedEvent(index, row) for index, row in enumerate(first.events)]
        assert expected == await store.read_sealed(0, 10)

    async def test_no_more_than_the_limit_at_once(self, store: JournalStore) -> None:
        await store.append([start(events=7)])
        await seal_all(store, 1, limit=3)

        sizes = [await store.seal(3) for _ in range(3)]

        assert [6, 7, 7] == sizes

    async def test_streams_that_arent_runs_are_sealed_too(self, store: JournalStore) -> None:
        stream = new_id()
        row = event(stream, 1, "log-opened")
        await store.append_stream(stream, 0, [row])
        await seal_all(store, 1)

        assert [SealedEvent(0, row)] == await store.read_sealed(0, 1)

    async def test_reading_takes_any_place_and_any_size(self, store: JournalStore) -> None:
        first = start(events=600)
        await store.append([first])
        await seal_all(store, 600, limit=170)

        for begin, limit in ((0, 600), (0, 1), (255, 2), (256, 256), (257, 300), (599, 9), (600, 9), (7, 0)):
            found = await store.read_sealed(begin, limit)
            assert list(first.events[begin : begin + limit]) == [each.event for each in found]
            assert list(range(begin, min(begin + limit, 600))) == [each.sealed_index for each in found]

    @pytest.mark.case("I02")
    async def test_losers_leave_no_hole(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])
        for _ in range(5):
            assert [False, True] == await store.append([first, start()])
        await seal_all(store, 6)

        found = await store.read_sealed(0, 99)

        assert list(range(6)) == [each.sealed_index for each in found]


class TestConcurrentSealers:
    async def test_writers_and_sealers_at_once_leave_one_true_order(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        stores = [store, other_store]
        writing = 6
        seen: list[list[SealedEvent]] = []

        async def write(number: int) -> None:
            nonlocal writing
            batch = [start() for _ in range(3)]
            await stores[number % 2].append(batch)
            controls = [each.control for each in batch]
            for _ in range(15):
                moves = [follow(control, events=2) for control in controls]
                assert all(await stores[number % 2].append(moves))
                controls = [move.control for move in moves]
            writing -= 1

        async def seal(number: int) -> None:
            while writing:
                await stores[number % 2].seal(7 + number)
                await asyncio.sleep(0)

        async def follow_on() -> None:
            found: list[SealedEvent] = []
            while writing:
                found += await other_store.read_sealed(len(found), 50)
                await asyncio.sleep(0)
            seen.append(found)

        await asyncio.gather(*(write(n) for n in range(6)), *(seal(n) for n in range(4)), follow_on())
        total = 6 * 3 * (1 + 15 * 2)
        await seal_all(store, total)

        order = await read_all(store, 100)
        assert list(range(total)) == [each.sealed_index for each in order]
        assert order == await read_all(other_store, 333)
        assert order[: len(seen[0])] == seen[0]
        versions: dict[UUID, list[int]] = defaultdict(list)
        for each in order:
            versions[each.event.run_id].append(each.event.version)
        assert {tuple(range(1, 32))} == {tuple(found) for found in versions.values()}
        assert 18 == len(versions)
