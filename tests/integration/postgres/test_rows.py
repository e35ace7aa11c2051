"""What the tables hold beyond the port: sizes, the second line, and rows that don't agree."""

import asyncio
import random
from dataclasses import replace

import psycopg
import pytest

from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.postgres import (
    PostgresJournalStore,
    migrate_keys,
    open_postgres_keys,
)
from abeyance.journal.postgres.wire import statement
from tests.integration.postgres.samples import (
    MINUTE,
    NOW,
    WORLD,
    new_append,
    new_contents,
    new_events,
    new_lease,
    new_run,
    with_link,
    with_wait,
)

pytestmark = pytest.mark.anyio

INSERT = (
    "INSERT INTO journal_events (originator_id, originator_version, topic, state)"
    " VALUES (%s, %s, 'started', 'foreign')"
)
TABLES = (
    "journal_events", "waits", "links", "run_control", "sealed_tiles", "abeyance_keys.blocks",
)  # fmt: skip


class TestSecondLine:
    async def test_an_event_that_is_there_without_its_control_row_is_never_overwritten(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        damaged, whole = new_append(new_run()), new_append(new_run())
        database.execute(INSERT, (damaged.run_id, 1))

        assert [False, True] == await store.append([damaged, whole])

        assert await store.read_run(damaged.run_id) is None
        events, _ = await store.read_events(damaged.run_id, after=0, limit=9, contents=False)
        assert [b"foreign"] == [event.state for event in events]

    async def test_a_link_that_is_there_makes_the_append_lose(self, store: PostgresJournalStore) -> None:
        digest = WORLD.random_bytes(32)
        first, second = (with_link(with_wait(new_append(new_run()), 1), 1, digest) for _ in range(2))

        assert [[True], [False]] == [await store.append([each]) for each in (first, second)]

        found = await store.find_link(digest)
        assert found is not None
        assert first.run_id == found.control.run_id

    async def test_a_stream_has_no_gap(self, store: PostgresJournalStore) -> None:
        stream = new_run()

        assert not await store.append_stream(stream, 3, new_events(stream, [4]))
        assert await store.append_stream(stream, 0, new_events(stream, [1, 2]))
        assert not await store.append_stream(stream, 1, new_events(stream, [2]))
        assert await store.append_stream(stream, 2, new_events(stream, [3]))


class TestDamage:
    async def test_a_wait_whose_events_are_gone_is_named(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        digest = WORLD.random_bytes(32)
        append = with_link(with_wait(new_append(new_run()), 1), 1, digest)
        await store.append([append])
        database.execute("DELETE FROM journal_events")

        with pytest.raises(HistoryDamagedError, match=str(append.run_id)):
            await store.find_link(digest)
        with pytest.raises(HistoryDamagedError):
            await store.read_record(append.run_id)

    async def test_a_control_row_that_disagrees_is_read_as_it_is(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        append = new_append(new_run(), count=2)
        await store.append([append])
        database.execute("UPDATE run_control SET version = 7")

        found = await store.read_record(append.run_id)

        assert found is not None
        assert (7, 2) == (found.control.version, found.newest.version)

    async def test_a_definition_that_was_changed_isnt_given_out(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        digest = bytes(32)
        await store.put_definition(digest, b"{}")

        with pytest.raises(VerificationError):
            await store.get_definition(digest)


class TestTransactions:
    @pytest.mark.case("K07")
    async def test_no_transaction_is_open_between_two_calls(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        append = new_append(new_run())
        await store.append([append])
        await store.read_run(append.run_id)

        states = database.execute(
            "SELECT DISTINCT state FROM pg_stat_activity WHERE application_name = 'abeyance'"
        ).fetchall()
        assert [("idle",)] == states

    @pytest.mark.case("K01")
    async def test_nothing_is_prepared_by_name(self, store: PostgresJournalStore) -> None:
        for _ in range(8):
            await store.append([new_append(new_run())])
            await store.read_run(new_run())

        prepared = await store.fetch(statement("SELECT count(*) FROM pg_prepared_statements"))
        assert [(0,)] == prepared

    @pytest.mark.case("K09")
    async def test_no_lock_outlives_its_transaction(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        await store.append([new_append(new_run()) for _ in range(5)])

        assert [] == database.execute("SELECT * FROM pg_locks WHERE locktype = 'advisory'").fetchall()

    async def test_claims_and_renewals_pass_rows_that_are_being_written(
        self, store: PostgresJournalStore, database: psycopg.Connection, journal_url: str
    ) -> None:
        lease = new_lease()
        busy = new_append(new_run(), lease_id=lease, lease_until=NOW + MINUTE)
        await store.append([busy])
        with psycopg.connect(journal_url) as writer:
            writer.execute("UPDATE run_control SET updated = updated")

            assert {lease} == await store.renew([lease], NOW + 2 * MINUTE)
            writer.rollback()
        assert {lease} == await store.renew([lease], NOW + 3 * MINUTE)

        found = await store.read_run(busy.run_id)
        assert found is not None
        assert NOW + 3 * MINUTE == found.control.lease_until


@pytest.mark.slow
async def test_a_waiting_run_takes_less_than_four_and_a_half_kilobytes(
    store: PostgresJournalStore, database: psycopg.Connection, journal_url: str
) -> None:
    """Six events of 250 bytes, four contents of 130, a wait, a link, a control row, a key, sealed."""
    runs, choose = 1_600, random.Random(1)
    migrate_keys(journal_url)
    keys = await open_postgres_keys(journal_url, bytes(32), WORLD)
    await keys.take(runs)
    await keys.close()

    async def wait_for_answers(count: int) -> None:
        for _ in range(count):
            run, lease, deadline = new_run(), new_lease(), NOW + choose.randrange(10**12)
            first = new_append(run, count=2, lease_id=lease, lease_until=NOW, due=NOW)
            second = with_wait(new_append(run, after=2, count=2, lease=lease), 4, due=deadline)
            third = new_append(
                run, after=4, count=2, lease=lease, lease_id=None, status="suspended", due=deadline
            )
            assert await store.append([replace(first, contents=new_contents(run, [1, 2]))])
            second = with_link(replace(second, contents=new_contents(run, [3, 4])), 4, WORLD.random_bytes(32))
            assert await store.append([second])
            assert await store.append([with_wait(third, 4, paused=5, state="waiting", due=deadline)])

    for _ in range(20):  # autovacuum would come in the minutes that this takes in life
        await asyncio.gather(*(wait_for_answers(runs // 160) for _ in range(8)))
        database.execute("VACUUM run_control")
    while await store.seal(2_000) < 6 * runs:
        database.execute("VACUUM sealed_tiles")

    sizes = {
        table: database.execute("SELECT pg_total_relation_size(%s)", (table,)).fetchone()[0] / runs  # type: ignore[index]
        for table in TABLES
    }
    assert sum(sizes.values()) < 4.5 * 1_024, sizes
