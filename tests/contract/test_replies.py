"""Rows of idempotency keys, on both stores: a key is used once, until it expires."""

import asyncio
from dataclasses import replace

import pytest

from abeyance.journal.postgres.replies import PostgresReplies
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.replies import NOT_KEPT, ReplyStore
from abeyance.journal.sqlite.replies import SQLiteReplies
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore, ReplyRow
from tests.contract.rows import start

pytestmark = pytest.mark.anyio

ROW = ReplyRow(scope=b"scope", request=b"request", created=1_000, expires=9_000)
LATER = ROW._replace(request=b"another", created=2_000, expires=10_000)


def replies_of(store: JournalStore) -> ReplyStore:
    if isinstance(store, SQLiteJournalStore):
        return SQLiteReplies(store)
    assert isinstance(store, PostgresJournalStore)
    return PostgresReplies(store)


@pytest.fixture
def replies(store: JournalStore) -> ReplyStore:
    return replies_of(store)


class TestFind:
    async def test_a_key_that_was_never_used_is_not_found(self, replies: ReplyStore) -> None:
        assert await replies.find(b"scope", 1_000) is None

    async def test_the_row_of_an_append_names_the_run_and_its_key(
        self, store: JournalStore, replies: ReplyStore
    ) -> None:
        run = replace(start(key_id=7), reply=ROW)
        await store.append([run])

        found = await replies.find(b"scope", 8_999)

        assert (b"request", 1_000, run.run_id, 7, None) == found

    async def test_a_row_that_has_expired_is_not_found(
        self, store: JournalStore, replies: ReplyStore
    ) -> None:
        await store.append([replace(start(), reply=ROW)])

        assert await replies.find(b"scope", 9_000) is None

    async def test_the_key_of_a_run_is_known(self, store: JournalStore, replies: ReplyStore) -> None:
        run = start(key_id=7)
        await store.append([run])

        assert (7, None) == (await replies.key_of(run.run_id), await replies.key_of(start().run_id))


class TestReserve:
    async def test_a_key_is_reserved_once(self, replies: ReplyStore) -> None:
        verdicts = [await replies.reserve(row) for row in (ROW, LATER)]

        assert [True, False] == verdicts
        assert (b"request", 1_000, None, None, None) == await replies.find(b"scope", 1_000)

    async def test_a_key_is_reserved_once_at_the_same_time(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        stores = [replies_of(store), replies_of(other_store)]
        for number in range(20):
            row = ROW._replace(scope=b"%d" % number)

            verdicts = await asyncio.gather(*(stores[turn % 2].reserve(row) for turn in range(4)))

            assert [False, False, False, True] == sorted(verdicts)

    async def test_a_key_that_has_expired_is_reserved_anew(self, replies: ReplyStore) -> None:
        await replies.reserve(ROW)
        await replies.keep(ROW, None, b"sealed")
        again = LATER._replace(created=9_000, expires=18_000)

        assert await replies.reserve(again)
        assert (b"another", 9_000, None, None, None) == await replies.find(b"scope", 9_000)

    async def test_an_append_does_not_take_a_reserved_key(
        self, store: JournalStore, replies: ReplyStore
    ) -> None:
        await replies.reserve(ROW)

        assert [False] == await store.append([replace(start(), reply=LATER)])

    async def test_a_key_that_was_freed_is_as_good_as_new(self, replies: ReplyStore) -> None:
        await replies.reserve(ROW)
        await replies.free(ROW)

        assert await replies.reserve(LATER)

    async def test_nobody_frees_a_key_of_others_or_one_with_an_effect(
        self, store: JournalStore, replies: ReplyStore
    ) -> None:
        run = ROW._replace(scope=b"run")
        done = ROW._replace(scope=b"done")
        await replies.reserve(ROW)
        await store.append([replace(start(), reply=run)])
        await replies.reserve(done)
        await replies.keep(done, None, b"sealed")

        for row in (LATER, run, done):
            await replies.free(row)

        found = [await replies.find(scope, 1_000) for scope in (b"scope", b"run", b"done")]
        assert None not in found


class TestKeep:
    @pytest.mark.parametrize("reply", [b"sealed \x00 bytes", NOT_KEPT])
    async def test_what_was_answered_is_kept(
        self, store: JournalStore, replies: ReplyStore, reply: bytes
    ) -> None:
        run = replace(start(), reply=ROW)
        await store.append([run])

        assert await replies.keep(ROW, run.run_id, reply)
        assert (b"request", 1_000, run.run_id, 1, reply) == await replies.find(b"scope", 1_000)

    async def test_the_first_answer_stays(self, replies: ReplyStore) -> None:
        await replies.reserve(ROW)

        verdicts = [await replies.keep(ROW, None, reply) for reply in (b"first", b"second")]

        found = await replies.find(b"scope", 1_000)
        assert ([True, False], b"first") == (verdicts, found and found.reply)

    async def test_a_request_without_an_effect_has_its_row_put(
        self, store: JournalStore, replies: ReplyStore
    ) -> None:
        run = start()
        await store.append([run])

        assert await replies.keep(ROW, run.run_id, b"sealed")
        assert (b"request", 1_000, run.run_id, 1, b"sealed") == await replies.find(b"scope", 1_000)

    async def test_nobody_answers_for_another_request(self, replies: ReplyStore) -> None:
        await replies.reserve(ROW)

        assert not await replies.keep(LATER, None, b"not theirs")
        assert (b"request", 1_000, None, None, None) == await replies.find(b"scope", 1_000)


class TestRemoveExpired:
    async def test_expired_rows_are_removed_in_pages_and_the_others_stay(self, replies: ReplyStore) -> None:
        for number in range(5):
            await replies.reserve(ROW._replace(scope=b"old%d" % number))
        await replies.reserve(LATER)

        removed = [await replies.remove_expired(9_000, 2) for _ in range(4)]

        assert [2, 2, 1, 0] == removed
        assert await replies.find(b"scope", 9_000) is not None
        assert await replies.find(b"old1", 1_000) is None
