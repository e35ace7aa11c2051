"""One clock for all processes: the database's."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from abeyance.journal.postgres import SessionSettings, open_postgres
from abeyance.journal.postgres.clock import MEASURE_EACH_S, DatabaseClock
from abeyance.world import SystemWorld, to_micros

SECOND = 1_000_000


class HandWorld(SystemWorld):
    """A machine whose clocks are set by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.wall, self.ticks = datetime(2020, 1, 1, tzinfo=UTC), 100.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks


class TestDatabaseClock:
    def test_it_is_read_as_of_half_the_round_trip(self) -> None:
        world = HandWorld()
        clock = DatabaseClock(world)
        asked = clock.reading()
        world.ticks += 0.2

        clock.observe(asked, 1_000 * SECOND)

        assert 1_000 * SECOND + SECOND // 10 == clock.now()

    def test_the_wall_clock_moves_nothing(self) -> None:
        world = HandWorld()
        clock = DatabaseClock(world)
        clock.observe(clock.reading(), 0)

        world.wall += timedelta(hours=3)
        world.ticks += 2

        assert 2 * SECOND == clock.now()

    def test_it_is_measured_again_after_half_a_minute(self) -> None:
        world = HandWorld()
        clock = DatabaseClock(world)
        stale = [clock.stale]
        clock.observe(clock.reading(), 0)
        for passed in (0.0, MEASURE_EACH_S, 0.1):
            world.ticks += passed
            stale.append(clock.stale)

        assert [True, False, False, True] == stale


@pytest.mark.anyio
class TestStoreClock:
    async def test_now_is_the_databases_time_whatever_the_host_says(self, journal_url: str) -> None:
        world = HandWorld()
        store = await open_postgres(journal_url, world, SessionSettings())
        with psycopg.connect(journal_url) as connection:
            row = connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None

        try:
            assert abs(await store.now() - to_micros(row[0])) < SECOND
            assert abs(await store.clock_offset() - (row[0] - world.wall)) < timedelta(seconds=1)
            world.ticks += MEASURE_EACH_S + 60  # what a suspended machine does
            assert abs(await store.now() - to_micros(row[0])) < SECOND
        finally:
            await store.close()
