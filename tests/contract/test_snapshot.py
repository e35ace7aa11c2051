"""One moment of the journal, and at which sealed index an event stands: the same on both stores."""

from uuid import UUID

import pytest

from abeyance.journal.store import JournalStore
from tests.contract.rows import event, follow, link, new_id, start, wait

pytestmark = pytest.mark.anyio


async def seal_all(store: JournalStore) -> int:
    size = -1
    while (sealed := await store.seal(100)) != size:
        size = sealed
    return size


async def grown(store: JournalStore, appends: int) -> UUID:
    """A run of so many appends."""
    first = start()
    await store.append([first])
    control = first.control
    for _ in range(appends - 1):
        append = follow(control)
        assert await store.append([append]) == [True]
        control = append.control
    return first.run_id


class TestSealedIndexes:
    async def test_every_event_is_found_at_the_index_that_it_was_given(self, store: JournalStore) -> None:
        runs = [await grown(store, 150) for _ in range(4)]
        size = await seal_all(store)

        sealed = await store.read_sealed(0, size)

        expected = {(each.event.run_id, each.event.version): each.sealed_index for each in sealed}
        found = {run: await store.sealed_indexes(run, range(1, 151)) for run in runs}
        assert expected == {(run, version): index for run in runs for version, index in found[run].items()}
        assert 600 == size

    async def test_what_is_not_sealed_yet_has_no_index(self, store: JournalStore) -> None:
        run = await grown(store, 2)
        await seal_all(store)
        other = await grown(store, 1)

        assert {1: 0, 2: 1} == await store.sealed_indexes(run, [2, 1, 3])
        assert {} == await store.sealed_indexes(other, [1])
        assert {} == await store.sealed_indexes(new_id(), [1])

    async def test_an_empty_journal_has_no_indexes(self, store: JournalStore) -> None:
        assert {} == await store.sealed_indexes(new_id(), [1])


class TestSnapshot:
    async def test_it_shows_one_moment_whatever_is_written_after(self, store: JournalStore) -> None:
        run = await grown(store, 2)
        await seal_all(store)

        async with store.snapshot() as snapshot:
            await grown(store, 1)
            await seal_all(store)

            assert [run] == await snapshot.streams(None, 10)
            assert 2 == await snapshot.sealed_size()
            assert await store.read_sealed(0, 2) == await snapshot.read_sealed(0, 10)
            assert {1: 0, 2: 1} == await snapshot.sealed_indexes(run, [1, 2, 3])

    async def test_it_reads_streams_and_events_in_pages(self, store: JournalStore) -> None:
        runs = [await grown(store, 3) for _ in range(5)]
        stream = new_id()
        await store.append_stream(stream, 0, [event(stream, 1)])

        async with store.snapshot() as snapshot:
            pages = [await snapshot.streams(None, 4)]
            pages.append(await snapshot.streams(pages[0][-1], 4))
            events = await snapshot.events(runs[0], after=1, limit=1)

        assert sorted([*runs, stream]) == [each for page in pages for each in page]
        assert [(runs[0], 2)] == [(each.run_id, each.version) for each in events]

    async def test_it_reads_the_inline_rows_of_runs(self, store: JournalStore) -> None:
        first = start()
        waits = tuple(wait(first.run_id, opened) for opened in (1,))
        links = tuple(link(first.run_id, 1) for _ in range(3))
        append = type(first)(0, None, first.control, first.events, (), waits, links)
        await store.append([append])

        async with store.snapshot() as snapshot:
            assert [first.control] == await snapshot.controls([first.run_id, new_id()])
            assert list(waits) == await snapshot.waits([first.run_id, new_id()])
            assert {*links[:2]} == {*await snapshot.links([each.digest for each in links[:2]])}
            assert sorted(links) == await snapshot.links_after(b"", 10)
            assert 3 == await snapshot.count_links()

    async def test_it_reads_other_tables_of_the_same_moment(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])

        async with store.snapshot() as snapshot:
            text = "SELECT version, status FROM run_control WHERE run_id = $1"
            rows = await snapshot.select(text, (first.run_id,))

        assert [(1, "pending")] == rows
