"""The sealed order over several writing processes, without any lock but a run's own (docs/adr/0004)."""

import asyncio
from collections import defaultdict
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.journal.postgres import PostgresJournalStore
from abeyance.journal.postgres.sealing import Unsealed, put_in_order
from abeyance.journal.store import SealedEvent
from tests.integration.postgres.samples import new_append, new_run
from tests.integration.postgres.writers import write_at_once

RUN = UUID(int=1)
OUT_OF_ORDER = """
SELECT * FROM (
    SELECT originator_id, originator_version, lag(originator_version)
        OVER (PARTITION BY originator_id ORDER BY tx, notification_id) AS before
    FROM journal_events
) AS ordered WHERE originator_version <= before
"""


async def read_all(store: PostgresJournalStore) -> list[SealedEvent]:
    found: list[SealedEvent] = []
    while page := await store.read_sealed(len(found), 500):
        found += page
    return found


async def seal_up_to(store: PostgresJournalStore, size: int) -> None:
    async with asyncio.timeout(20):
        while await store.seal(1_000) < size:
            await asyncio.sleep(0.01)


def count_deadlocks(database: psycopg.Connection) -> int:
    row = database.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.anyio
class TestManyProcesses:
    @pytest.mark.slow
    @pytest.mark.case("I02", "I03")
    async def test_no_version_is_sealed_out_of_order_and_none_is_missed(
        self, store: PostgresJournalStore, database: psycopg.Connection, journal_url: str
    ) -> None:
        runs = [new_run() for _ in range(12)]
        writing = asyncio.create_task(
            asyncio.to_thread(write_at_once, journal_url, runs, processes=4, rounds=100, batch=4)
        )
        followed: list[SealedEvent] = []
        while not writing.done():
            await store.seal(200)
            followed += await store.read_sealed(len(followed), 500)
            await asyncio.sleep(0)
        outcomes = await writing

        stored = database.execute("SELECT count(*) FROM journal_events").fetchone()
        assert stored is not None
        await seal_up_to(store, stored[0])
        order = await read_all(store)
        versions: dict[UUID, list[int]] = defaultdict(list)
        for _, event in order:
            versions[event.run_id].append(event.version)
        assert list(range(stored[0])) == [index for index, _ in order]
        assert order[: len(followed)] == followed
        assert all(found == list(range(1, len(found) + 1)) for found in versions.values())
        assert set(runs) == versions.keys()
        assert 4 * 100 * 4 == sum(outcome.won + outcome.lost for outcome in outcomes)
        assert all(outcome.won for outcome in outcomes)
        assert any(outcome.lost for outcome in outcomes), "the writers never met: the test shows nothing"
        assert [] == database.execute(OUT_OF_ORDER).fetchall(), "the second line did the first one's work"
        assert 0 == count_deadlocks(database)


@pytest.mark.anyio
class TestOpenTransactions:
    async def test_a_transaction_that_is_open_holds_up_the_sealer_and_no_append(
        self, store: PostgresJournalStore, journal_url: str
    ) -> None:
        first, second = new_append(new_run()), new_append(new_run())
        with psycopg.connect(journal_url) as writer:
            writer.execute("SELECT pg_current_xact_id()")

            assert [True] == await store.append([first])
            assert [True] == await store.append([second])
            assert 0 == await store.seal(10)
            writer.rollback()

        await seal_up_to(store, 2)
        assert [first.run_id, second.run_id] == [event.run_id for _, event in await read_all(store)]

    async def test_an_old_snapshot_holds_up_neither(
        self, store: PostgresJournalStore, journal_url: str
    ) -> None:
        with psycopg.connect(journal_url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute("SELECT count(*) FROM journal_events")

            assert [True] == await store.append([new_append(new_run(), count=2)])
            await seal_up_to(store, 2)

    async def test_an_event_of_a_transaction_that_ends_late_comes_late_and_isnt_missed(
        self, store: PostgresJournalStore, journal_url: str
    ) -> None:
        late, early = new_append(new_run()), new_append(new_run())
        with psycopg.connect(journal_url) as writer:
            writer.execute(
                "SELECT journal_append_stream(%s, 0, ARRAY[1::bigint], ARRAY['started'], ARRAY[%s::bytea])",
                (late.run_id, late.events[0].state),
            )
            await store.append([early])
            assert 0 == await store.seal(10)
            writer.commit()

        await seal_up_to(store, 2)
        assert [late.run_id, early.run_id] == [event.run_id for _, event in await read_all(store)]

    @pytest.mark.case("I02")
    async def test_numbers_that_a_rollback_used_up_are_no_hole(
        self, store: PostgresJournalStore, journal_url: str
    ) -> None:
        with psycopg.connect(journal_url) as writer:
            writer.execute(
                "SELECT journal_append_stream(%s, 0, ARRAY[1::bigint], ARRAY['started'], ARRAY[''::bytea])",
                (new_run(),),
            )
            writer.rollback()
        await store.append([new_append(new_run(), count=2)])

        await seal_up_to(store, 2)

        assert [0, 1] == [index for index, _ in await read_all(store)]

    async def test_a_writer_who_takes_no_lock_cant_put_a_run_out_of_order(
        self, store: PostgresJournalStore, journal_url: str
    ) -> None:
        run = new_run()
        insert = (
            "INSERT INTO journal_events (originator_id, originator_version, topic, state)"
            " VALUES (%s, %s, 'started', '')"
        )
        with psycopg.connect(journal_url) as first, psycopg.connect(journal_url) as second:
            second.execute("SELECT pg_current_xact_id()")
            first.execute(insert, (run, 1))
            first.commit()
            second.execute(insert, (run, 2))  # has the smaller transaction id
            second.commit()
        await store.append([new_append(new_run())])

        await seal_up_to(store, 3)

        found = [event.version for _, event in await read_all(store) if event.run_id == run]
        assert [1, 2] == found

    async def test_an_event_without_its_predecessor_is_held_back_and_others_pass(
        self, store: PostgresJournalStore, database: psycopg.Connection
    ) -> None:
        run, other = new_run(), new_append(new_run())
        insert = (
            "INSERT INTO journal_events (originator_id, originator_version, topic, state)"
            " VALUES (%s, %s, 'started', '')"
        )
        database.execute(insert, (run, 2))
        await store.append([other])
        await seal_up_to(store, 1)
        assert [other.run_id] == [event.run_id for _, event in await read_all(store)]

        database.execute(insert, (run, 1))
        await seal_up_to(store, 3)

        found = [(event.run_id, event.version) for _, event in await read_all(store)]
        assert [(other.run_id, 1), (run, 1), (run, 2)] == found


@st.composite
def shuffled_streams(draw: st.DrawFn) -> list[Unsealed]:
    """Up to three streams of up to five events, in any order at all."""
    names = [
        (UUID(int=s), v) for s in range(draw(st.integers(1, 3))) for v in range(1, draw(st.integers(2, 6)))
    ]
    order = draw(st.permutations(names))
    place = {name: index for index, name in enumerate(order)}
    return [
        Unsealed(index, index, stream, version, version == 1 or place[stream, version - 1] < index)
        for index, (stream, version) in enumerate(order)
    ]


class TestPutInOrder:
    @given(rows=shuffled_streams(), cut=st.integers(0, 15))
    def test_any_order_in_any_batches_comes_out_complete_and_in_order(
        self, rows: list[Unsealed], cut: int
    ) -> None:
        first = put_in_order(rows[:cut], [])
        second = put_in_order(rows[cut:], first.held)

        sealed = [(row.stream, row.version) for row in first.sealed + second.sealed]
        assert sorted((row.stream, row.version) for row in rows) == sorted(sealed)
        for stream in {row.stream for row in rows}:
            versions = [version for name, version in sealed if name == stream]
            assert list(range(1, len(versions) + 1)) == versions
        assert first.held == second.freed - second.held
        assert set() == first.freed

    def test_what_is_in_order_stays_as_it_is(self) -> None:
        rows = [Unsealed(7, number, RUN, number, True) for number in range(1, 9)]

        assert (rows, set(), set()) == put_in_order(rows, [])
