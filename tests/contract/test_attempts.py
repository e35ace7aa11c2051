"""Attempts at links, as both stores keep them."""

from uuid import UUID

import pytest

from abeyance.journal.attempts import NEWEST, Attempt, AttemptStore, StoredAttempts
from abeyance.journal.sqlite.attempts import SQLiteAttempts
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore
from tests.contract.rows import start

pytestmark = pytest.mark.anyio

KEY = UUID(int=5)


def attempts_of(store: JournalStore) -> AttemptStore:
    """The attempts beside this journal."""
    if isinstance(store, SQLiteJournalStore):
        return SQLiteAttempts(store)
    from abeyance.journal.postgres.attempts import PostgresAttempts
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(store, PostgresJournalStore)
    return PostgresAttempts(store)


async def new_run(store: JournalStore) -> UUID:
    run = start()
    assert [True] == await store.append([run])
    return run.run_id


def attempt(run_id: UUID, at: int, verdict: str = "accepted", *, ordinal: int = 1) -> Attempt:
    return Attempt(run_id, KEY, ordinal, at, verdict, 256 if at % 2 else None, b"client")


class TestAttempts:
    async def test_all_are_counted_and_the_newest_are_kept_newest_first(self, store: JournalStore) -> None:
        run_id, attempts = await new_run(store), attempts_of(store)
        tried = [attempt(run_id, at, ("bad-input", "accepted")[at % 2]) for at in range(NEWEST + 30)]

        for place in range(0, len(tried), 7):
            await attempts.add(tried[place : place + 7])

        found = await attempts.find(run_id, KEY, 1)
        assert {"accepted": 40, "bad-input": 40} == found.counts
        assert tried[: -NEWEST - 1 : -1] == list(found.newest)

    async def test_waits_are_kept_apart(self, store: JournalStore) -> None:
        one, two, attempts = await new_run(store), await new_run(store), attempts_of(store)
        both = [attempt(one, 1), attempt(two, 2), attempt(one, 3, ordinal=2)]

        await attempts.add(both)

        found = [await attempts.find(run, KEY, number) for run, number in ((one, 1), (two, 1), (one, 2))]
        assert [[each] for each in both] == [list(each.newest) for each in found]

    async def test_nothing_is_known_of_a_wait_that_nobody_tried(self, store: JournalStore) -> None:
        found = await attempts_of(store).find(await new_run(store), KEY, 1)

        assert StoredAttempts({}, []) == found

    async def test_an_attempt_at_a_run_that_is_not_there_is_dropped(self, store: JournalStore) -> None:
        gone, there, attempts = UUID(int=99), await new_run(store), attempts_of(store)

        await attempts.add([attempt(gone, 1), attempt(there, 2)])

        assert {} == (await attempts.find(gone, KEY, 1)).counts
        assert {"accepted": 1} == (await attempts.find(there, KEY, 1)).counts

    async def test_erasing_a_run_leaves_nothing_of_it(self, store: JournalStore) -> None:
        one, two, attempts = await new_run(store), await new_run(store), attempts_of(store)
        await attempts.add([attempt(one, 1), attempt(one, 2, ordinal=2), attempt(two, 3)])

        await attempts.erase([one])

        found = [await attempts.find(run, KEY, number) for run, number in ((one, 1), (one, 2), (two, 1))]
        assert [{}, {}, {"accepted": 1}] == [each.counts for each in found]
        assert [0, 0, 1] == [len(each.newest) for each in found]
