"""Permits in PostgreSQL: the rules of `abeyance.journal.permits`, and one count for all who draw."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from uuid import UUID

import psycopg
import pytest

from abeyance.journal.permits import WINDOW_US, Draw, MemoryPermits, PermitStore, Settled
from abeyance.journal.postgres.permits import PostgresPermits
from tests.integration.postgres.samples import WORLD

pytestmark = pytest.mark.anyio
KEY = b"a client"
NONE = UUID(int=0)


@pytest.fixture
async def permits(anyio_backend: str, journal_url: str) -> AsyncIterator[PostgresPermits]:
    opened = PostgresPermits(journal_url, WORLD)
    yield opened
    await opened.close()


def asked(need: int, extra: int = 0, *, key: bytes = KEY, limit: int = 600, block: int = 0) -> Draw:
    return Draw(key, need, extra, limit, UUID(int=block))


class TestRules:
    async def test_both_stores_keep_the_same(
        self, permits: PostgresPermits, database: psycopg.Connection, seed: int
    ) -> None:
        random, now = Random(seed), 1_790_000_000_000_000
        memory = MemoryPermits(lambda: now)
        open_blocks: list[Settled] = []

        for number in range(1, 400):
            steps = (0, 1, 249_999, 1_000_000, random.randrange(WINDOW_US // 2), -random.randrange(WINDOW_US))
            now += random.choice(steps)
            permits.testing_only_moment = now
            settled = open_blocks.pop() if open_blocks and random.random() < 0.5 else None
            if settled is not None and random.random() < 0.3:
                await permits.settle([settled])
                await memory.settle([settled])
                continue
            draw = asked(random.randint(1, 9), random.randint(0, 20), limit=40, block=number)
            draw = draw._replace(settled=settled)
            drawn = await memory.draw(draw)
            assert drawn == await permits.draw(draw), number
            if drawn.extra:
                open_blocks.append(
                    Settled(KEY, draw.block, random.randint(0, drawn.extra), random.randint(0, 9))
                )

    async def test_a_new_client_waits_for_nothing(self, permits: PostgresPermits) -> None:
        drawn = await permits.draw(asked(1, 15))

        assert (1, 15, 10_000_000, 0) == drawn


class TestManyProcesses:
    @pytest.mark.case("F09")
    async def test_together_they_grant_the_limit_and_not_one_more(self, journal_url: str) -> None:
        processes = [PostgresPermits(journal_url, WORLD) for _ in range(4)]

        async def draw(process: PermitStore) -> int:
            return sum([(await process.draw(asked(1))).granted for _ in range(200)])

        granted = await asyncio.gather(*(draw(process) for process in processes for _ in range(2)))
        for process in processes:
            await process.close()

        assert 600 == sum(granted)

    async def test_blocks_that_are_given_back_crosswise_dont_deadlock(self, journal_url: str) -> None:
        processes = [PostgresPermits(journal_url, WORLD) for _ in range(2)]
        keys = [b"%d" % number for number in range(30)]
        for number, key in enumerate(keys):
            await processes[0].draw(asked(1, 15, key=key, block=number))
        blocks = [Settled(key, UUID(int=number), 1, 0) for number, key in enumerate(keys)]

        for _ in range(10):
            await asyncio.gather(processes[0].settle(blocks), processes[1].settle(blocks[::-1]))
        for process in processes:
            await process.close()


class TestRefusal:
    @pytest.mark.case("F10")
    async def test_it_writes_nothing(self, permits: PostgresPermits, database: psycopg.Connection) -> None:
        """No row is changed or even locked, and no transaction id is taken."""
        await permits.draw(asked(600))
        row = database.execute("SELECT ctid, xmin, xmax FROM permits").fetchall()
        before = database.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())").fetchall()

        for number in range(50):
            refused = await permits.draw(asked(1, 15, block=number))

        assert 0 == refused.granted
        assert row == database.execute("SELECT ctid, xmin, xmax FROM permits").fetchall()
        assert before == database.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())").fetchall()

    async def test_the_table_is_outside_the_log_that_appends_wait_for(
        self, database: psycopg.Connection
    ) -> None:
        (persistence,) = database.execute(
            "SELECT relpersistence FROM pg_class WHERE oid = 'permits'::regclass"
        ).fetchone()  # type: ignore[misc]

        assert "u" == persistence


class TestSize:
    async def test_who_has_gone_is_forgotten(
        self, permits: PostgresPermits, database: psycopg.Connection
    ) -> None:
        database.execute(
            "INSERT INTO permits SELECT int4send(n), 1, '{}', '{}', '{}' FROM generate_series(1, 12000) AS n"
        )
        await permits.draw(asked(1))

        await permits.forget()

        assert [(KEY,)] == database.execute("SELECT key FROM permits").fetchall()

    async def test_a_window_that_counts_stays(
        self, permits: PostgresPermits, database: psycopg.Connection
    ) -> None:
        start = 1_790_000_000_000_000
        permits.testing_only_moment = start
        await permits.draw(asked(1))
        permits.testing_only_moment = start + WINDOW_US - 1

        await permits.forget()

        assert 1 == len(database.execute("SELECT FROM permits").fetchall())
        permits.testing_only_moment = start + 3 * WINDOW_US
        await permits.forget()
        assert 0 == len(database.execute("SELECT FROM permits").fetchall())
