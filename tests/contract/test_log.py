"""What every store promises of the log: its tiles are the tree, one head follows from the other."""

import asyncio
from uuid import UUID

import pytest

from abeyance.audit.log import TileRow
from abeyance.audit.merkle import Frontier
from abeyance.audit.notes import NoteKey, open_note, parse_checkpoint
from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.body import leaf_hash
from abeyance.journal.store import JournalStore, KeyStore
from tests.support.logs import CODEC, LOG_SIGNER, OpenLog, answered_run, open_log
from tests.unit.projections.histories import ORIGIN

pytestmark = pytest.mark.anyio


@pytest.fixture
async def opened(store: JournalStore, keys: KeyStore) -> OpenLog:
    opened = open_log(store, keys)
    await opened.open()
    return opened


async def plain_frontier(opened: OpenLog) -> Frontier:
    frontier = Frontier()
    for sealed in await opened.journal.read_sealed(0, 10_000):
        frontier.append(leaf_hash(CODEC.plain(sealed.event)))
    return frontier


class TestLog:
    async def test_a_new_log_has_no_checkpoint(self, opened: OpenLog) -> None:
        head = await opened.log.head()

        assert (0, None) == (head.size, head.note)

    async def test_the_checkpoint_is_over_every_sealed_event(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1), answered_run(2))

        head = await opened.log.head()

        assert head.note is not None
        checkpoint = parse_checkpoint(open_note(head.note, NoteKey(ORIGIN, LOG_SIGNER.public_key)))
        frontier = await plain_frontier(opened)
        assert (ORIGIN, 15, frontier.root) == (checkpoint.origin, checkpoint.size, checkpoint.root)

    async def test_it_grows_over_the_edge_of_tiles(self, opened: OpenLog) -> None:
        for number in range(1, 91):
            await opened.write(answered_run(number))

        head = await opened.log.head()

        frontier = await plain_frontier(opened)
        assert (543, frontier.root) == (head.size, head.checkpoint.root)
        sizes = [len(tile) for tile in await opened.store.read_tiles(0, 0, 9)]
        assert ([8_192, 8_192, 31 * 32], 64) == (sizes, len(await opened.store.read_tile(1, 0)))

    async def test_nothing_new_signs_nothing(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        before = await opened.log.head()

        assert not await opened.log.step()
        assert before == await opened.log.head()

    async def test_of_two_keepers_one_wins(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        for append in answered_run(2).appends:
            await opened.journal.append([append])
        await opened.seal()

        await asyncio.gather(*(opened.log.step() for _ in range(4)))

        head = await opened.log.head()
        assert (15, (await plain_frontier(opened)).root) == (head.size, head.checkpoint.root)

    async def test_a_keeper_that_was_overtaken_writes_nothing(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        before = await opened.log.head()

        grown = await opened.store.grow(5, [TileRow(0, 0, b"x" * 32)], 6, "note\n")

        assert not grown
        assert before == await opened.log.head()

    async def test_a_changed_tile_stops_the_signing(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        head = await opened.log.head()
        tile = await opened.store.read_tile(0, 0)
        assert head.note is not None
        changed = TileRow(0, 0, bytes([tile[0] ^ 1]) + tile[1:])
        assert await opened.store.grow(head.size, [changed], head.size, head.note)
        for append in answered_run(2).appends:
            await opened.journal.append([append])
        await opened.seal()

        with pytest.raises(VerificationError, match="nothing is signed"):
            await opened.log.step()

        assert head == await opened.log.head()

    async def test_a_sealed_event_that_is_gone_stops_the_signing(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        for append in answered_run(2).appends:
            await opened.journal.append([append])
        await opened.seal()
        await delete_event(opened.journal, UUID(int=2), 2)

        with pytest.raises(HistoryDamagedError, match="isn't stored"):
            await opened.log.step()


async def delete_event(journal: JournalStore, run_id: UUID, version: int) -> None:
    from abeyance.journal.postgres.store import PostgresJournalStore
    from abeyance.journal.postgres.wire import statement
    from abeyance.journal.sqlite.store import SQLiteJournalStore

    text = "DELETE FROM journal_events WHERE originator_id = '{}' AND originator_version = {}"
    if isinstance(journal, SQLiteJournalStore):
        await journal.write(lambda cursor: cursor.execute(text.format(run_id.hex, version)).rowcount)
    else:
        assert isinstance(journal, PostgresJournalStore)
        await journal.fetch(statement(text.format(run_id, version)))


class TestKeptCheckpoint:
    async def test_a_store_that_grew_since_agrees_with_it(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        kept = await opened.keys.kept_checkpoint()
        await opened.write(*(answered_run(number) for number in range(2, 40)))
        assert kept is not None
        await opened.log.check_kept_head()

        checkpoint = parse_checkpoint(open_note(kept, opened.log.key))

        assert 9 == checkpoint.size
        assert kept != await opened.keys.kept_checkpoint()

    async def test_a_store_that_is_behind_it_is_refused(self, opened: OpenLog) -> None:
        await opened.write(answered_run(1))
        old, tile = await opened.log.head(), await opened.store.read_tile(0, 0)
        await opened.write(answered_run(2))
        assert old.note is not None
        assert await opened.store.grow(15, [TileRow(0, 0, tile)], old.size, old.note)

        with pytest.raises(VerificationError, match="old copy"):
            await opened.log.check_kept_head()

    async def test_an_older_one_never_replaces_a_newer_one(self, keys: KeyStore) -> None:
        await keys.keep_checkpoint("newer", 9)
        await keys.keep_checkpoint("older", 8)

        assert "newer" == await keys.kept_checkpoint()

    async def test_a_new_key_store_keeps_none(self, keys: KeyStore) -> None:
        assert await keys.kept_checkpoint() is None
