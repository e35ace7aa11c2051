"""Signing keys that have ended: no append by them is taken, and all that was taken lies before their end."""

import asyncio
from dataclasses import replace

import psycopg
import pytest

from abeyance.errors import SigningKeyRetiredError
from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.signing_keys import SigningKeyStore
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import Append, EventRow, JournalStore
from tests.contract.rows import event, new_id, start

pytestmark = pytest.mark.anyio
OLD, NEW, ROOT = b"old-key8", b"new-key8", b"root-key"


def signed(append: Append, kid: bytes) -> Append:
    """The append as this key has signed it."""
    rows = tuple(row._replace(state=kid + row.state[8:]) for row in append.events)
    return replace(append, events=rows)


def by(kid: bytes, row: EventRow) -> EventRow:
    return row._replace(state=kid + row.state[8:])


def ending(expected: int = 0) -> StreamAppend:
    row = by(ROOT, event(DEPLOYMENT_STREAM, expected + 1, "key-retired"))
    return StreamAppend(DEPLOYMENT_STREAM, expected, (row,))


def keys_of(store: JournalStore) -> SigningKeyStore:
    if isinstance(store, SQLiteJournalStore):
        from abeyance.journal.sqlite.signing_keys import SQLiteSigningKeys

        return SQLiteSigningKeys(store)
    from abeyance.journal.postgres.signing_keys import PostgresSigningKeys

    assert isinstance(store, PostgresJournalStore)
    return PostgresSigningKeys(store)


class TestEnding:
    async def test_a_key_without_a_row_signs(self, store: JournalStore) -> None:
        assert [True] == await store.append([signed(start(), OLD)])
        assert {} == await keys_of(store).ended()

    @pytest.mark.parametrize("state", ["retired", "revoked"])
    async def test_no_append_by_an_ended_key_is_taken(
        self, store: JournalStore, other_store: JournalStore, state: str
    ) -> None:
        """In any process, of a run and of another stream; and it isn't told that it lost a race."""
        assert await keys_of(store).end(OLD, state, ending())  # type: ignore[arg-type]

        run, stream = signed(start(), OLD), new_id()
        with pytest.raises(SigningKeyRetiredError):
            await other_store.append([run])
        with pytest.raises(SigningKeyRetiredError):
            await other_store.append_stream(stream, 0, [by(OLD, event(stream, 1))])
        assert await other_store.read_run(run.run_id) is None
        assert ([], {}) == await other_store.read_events(stream, after=0, limit=9, contents=False)

    async def test_a_mixed_batch_leaves_nothing(self, store: JournalStore) -> None:
        assert await keys_of(store).end(OLD, "retired", ending())
        good = signed(start(), NEW)

        with pytest.raises(SigningKeyRetiredError):
            await store.append([good, signed(start(), OLD)])
        assert await store.read_run(good.run_id) is None

    async def test_other_keys_go_on(self, store: JournalStore) -> None:
        assert await keys_of(store).end(OLD, "retired", ending())

        assert [True] == await store.append([signed(start(), NEW)])

    async def test_a_key_ends_only_with_its_event(self, store: JournalStore) -> None:
        """The stream has moved on: the key is as it was."""
        assert not await keys_of(store).end(OLD, "retired", ending(expected=3))

        assert {} == await keys_of(store).ended()
        assert [True] == await store.append([signed(start(), OLD)])

    async def test_a_retired_key_can_be_revoked(self, store: JournalStore) -> None:
        keys = keys_of(store)
        assert await keys.end(OLD, "retired", ending())
        assert await keys.end(OLD, "revoked", ending(expected=1))

        assert {OLD: "revoked"} == await keys.ended()


APPEND = "SELECT journal_append_stream(%s, 0, ARRAY[1]::bigint[], ARRAY['exported'], ARRAY[%s]::bytea[])"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7309 AND NOT granted"


class TestRunningAppends:
    @pytest.mark.parametrize("store_kind", ["postgres"], indirect=True)  # SQLite has one writer
    async def test_retiring_waits_for_an_append_that_hangs_and_comes_after_it(
        self, store: JournalStore, postgres: str
    ) -> None:
        """Its event has an index below that of the end, though it was committed after the end was asked."""
        stream = new_id()
        with psycopg.connect(postgres) as hanging, psycopg.connect(postgres, autocommit=True) as looking:
            hanging.execute(APPEND, (stream, by(OLD, event(stream, 1)).state))
            asked = asyncio.create_task(keys_of(store).end(OLD, "retired", ending()))
            async with asyncio.timeout(8):
                while looking.execute(WAITING).fetchone() != (1,):
                    await asyncio.sleep(0.01)
            assert not asked.done()
            assert [True] == await store.append([signed(start(), NEW)])  # others don't wait

            late = asyncio.create_task(store.append([signed(start(), OLD)]))
            hanging.commit()
            assert await asked
            with pytest.raises(SigningKeyRetiredError):
                await late
        async with asyncio.timeout(8):
            while await store.seal(100) < 3:
                await asyncio.sleep(0.01)
        before = (await store.sealed_indexes(stream, [1]))[1]
        assert before < (await store.sealed_indexes(DEPLOYMENT_STREAM, [1]))[1]

    async def test_every_index_by_the_key_is_below_its_end(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        """Appends from two processes at once, until the key ends under them."""
        taken: list[Append] = []

        async def write(through: JournalStore) -> None:
            while True:
                append = signed(start(), OLD)
                await through.append([append])
                taken.append(append)

        writing = [asyncio.create_task(write(each)) for each in (store, other_store) * 3]
        while len(taken) < 30 and not any(task.done() for task in writing):
            await asyncio.sleep(0)
        assert await keys_of(store).end(OLD, "retired", ending())
        ends = await asyncio.gather(*writing, return_exceptions=True)

        assert {SigningKeyRetiredError} == {type(end) for end in ends}
        async with asyncio.timeout(20):
            while await store.seal(1_000) < len(taken) + 1:
                await asyncio.sleep(0.01)
        (end,) = (await store.sealed_indexes(DEPLOYMENT_STREAM, [1])).values()
        assert len(taken) == end
