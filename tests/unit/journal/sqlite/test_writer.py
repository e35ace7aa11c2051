"""The writer thread: groups, errors of one and of all, the end."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from abeyance.errors import StoreUnavailableError
from abeyance.journal.sqlite.connection import create_file, open_connection
from abeyance.journal.sqlite.writer import GroupCommitWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    create_file(path)
    connection = open_connection(path)
    connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    connection.close()
    return path


@pytest.fixture
async def writer(anyio_backend: str, file: Path) -> AsyncIterator[GroupCommitWriter]:
    opened = GroupCommitWriter(open_connection(file, busy_timeout_s=0.05), asyncio.get_running_loop())
    yield opened
    await opened.close()


class Insert:
    """Inserts a number, and a second one that makes it fail if it is there already."""

    def __init__(self, number: int, then: int | None = None) -> None:
        self._numbers = [number] if then is None else [number, then]

    def __call__(self, cursor: sqlite3.Cursor) -> int:
        for number in self._numbers:
            cursor.execute("INSERT INTO numbers VALUES (?)", (number,))
        return self._numbers[0]


def stored(file: Path) -> list[int]:
    connection = open_connection(file, read_only=True)
    rows = connection.execute("SELECT number FROM numbers ORDER BY number").fetchall()
    connection.close()
    return [row[0] for row in rows]


class Gate:
    """A request that holds the writer thread until it is opened, so that others wait behind it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, cursor: sqlite3.Cursor) -> None:
        self.reached.set()
        assert self.opened.wait(10)


async def behind(writer: GroupCommitWriter, works: list[Callable[[sqlite3.Cursor], Any]]) -> list[Any]:
    """What became of requests that all waited for the thread at once."""
    gate = Gate()
    held = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.reached.wait, 10)
    waiting = [asyncio.create_task(writer.run(work)) for work in works]
    await asyncio.sleep(0)
    gate.opened.set()
    await held
    return await asyncio.gather(*waiting, return_exceptions=True)


class TestGroup:
    async def test_what_waits_is_committed_at_once(self, writer: GroupCommitWriter, file: Path) -> None:
        with closing(open_connection(file, read_only=True)) as watch:
            # Counts the commits of other connections.
            before = watch.execute("PRAGMA data_version").fetchone()
            seen = set()

            def look(cursor: sqlite3.Cursor) -> None:
                seen.add(watch.execute("PRAGMA data_version").fetchone())

            found = await behind(writer, [*(Insert(number) for number in range(50)), look, Insert(50)])

        assert [*range(50), None, 50] == found
        assert {before} == seen
        assert list(range(51)) == stored(file)

    async def test_one_that_fails_takes_nothing_with_it(self, writer: GroupCommitWriter, file: Path) -> None:
        found = await behind(writer, [Insert(1), Insert(2, 1), Insert(3), Insert(1 << 70), Insert(4)])

        errors = [type(each) for each in found if isinstance(each, BaseException)]
        assert [sqlite3.IntegrityError, OverflowError] == errors
        assert [1, 3, 4] == stored(file)

    async def test_a_request_whose_caller_left_hurts_nobody(self, writer: GroupCommitWriter) -> None:
        gate = Gate()
        held = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.reached.wait, 10)
        left = asyncio.create_task(writer.run(Insert(1)))
        await asyncio.sleep(0)
        left.cancel()
        gate.opened.set()

        assert 2 == await writer.run(Insert(2))
        await held
        assert left.cancelled()


class TestFailingDisk:
    @pytest.mark.case("J01")
    async def test_busy_is_unavailable_and_takes_nothing(self, writer: GroupCommitWriter, file: Path) -> None:
        with closing(open_connection(file)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="busy") as caught:
                await writer.run(Insert(1))

        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert 2 == await writer.run(Insert(2))
        assert [2] == stored(file)

    async def test_a_full_disk_fails_all_and_they_work_later(
        self, writer: GroupCommitWriter, file: Path
    ) -> None:
        def fill(cursor: sqlite3.Cursor) -> None:
            cursor.execute("PRAGMA max_page_count = 3")
            cursor.execute("CREATE TABLE big AS SELECT randomblob(100000) AS bytes")

        gone = await behind(writer, [Insert(1), fill, Insert(2)])

        assert ["the disk of the database is full"] * 3 == [str(each) for each in gone]
        assert len(set(map(id, gone))) == 3
        assert [] == stored(file)
        await writer.run(lambda cursor: cursor.execute("PRAGMA max_page_count = 100000"))
        assert 3 == await writer.run(Insert(3))

    async def test_a_read_only_database_is_unavailable(self, file: Path) -> None:
        connection = open_connection(file)
        writer = GroupCommitWriter(connection, asyncio.get_running_loop())
        connection.execute("PRAGMA query_only = ON")

        with pytest.raises(StoreUnavailableError, match="read-only"):
            await writer.run(Insert(1))

        connection.execute("PRAGMA query_only = OFF")
        assert 2 == await writer.run(Insert(2))
        await writer.close()


class TestClose:
    async def test_what_waits_is_finished(self, file: Path) -> None:
        writer = GroupCommitWriter(open_connection(file), asyncio.get_running_loop())
        gate = Gate()
        held = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.reached.wait, 10)
        waiting = [asyncio.create_task(writer.run(Insert(number))) for number in range(9)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0)

        with pytest.raises(StoreUnavailableError, match="closed"):
            await writer.run(Insert(10))

        gate.opened.set()
        await asyncio.gather(held, closing, *waiting)
        assert list(range(9)) == stored(file)
