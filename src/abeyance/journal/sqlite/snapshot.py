"""One moment of the journal on SQLite, over a connection of its own that can't write.

It needs no lock on the folder: a check or a verification runs beside the process that has the store, or on a
copy of the file. Queries run in threads, so that the loop goes on; the log can't be emptied meanwhile.
"""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from abeyance.journal.sqlite import reading, sealing
from abeyance.journal.sqlite.connection import BUSY_TIMEOUT_S, open_connection
from abeyance.journal.sqlite.faults import translated
from abeyance.journal.store import Control, EventRow, LinkRow, SealedEvent, WaitRow

T = TypeVar("T")

_FIRST = UUID(int=0)
_SELECT_STREAMS = """
SELECT DISTINCT originator_id FROM journal_events WHERE originator_id > ? ORDER BY originator_id LIMIT ?
"""
_SELECT_CONTROLS = "SELECT run_id FROM run_control WHERE run_id > ? ORDER BY run_id LIMIT ?"
_SELECT_WAITING = "SELECT DISTINCT run_id FROM waits WHERE run_id > ? ORDER BY run_id LIMIT ?"
_SELECT_WAITS = """
SELECT run_id, opened, call_key, ordinal, state, paused, answer, due, closed FROM waits
WHERE run_id = ? ORDER BY opened
"""
_SELECT_LINK = "SELECT digest, run_id, opened FROM links WHERE digest = ?"
_SELECT_LINKS = "SELECT digest, run_id, opened FROM links WHERE digest > ? ORDER BY digest LIMIT ?"


class SQLiteSnapshot:
    """See `abeyance.journal.store.JournalSnapshot`. Made by `open_snapshot`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def streams(self, after: UUID | None, limit: int) -> list[UUID]:
        """See `JournalSnapshot.streams`."""
        return await self._run(lambda connection: _streams(connection, after, limit))

    async def events(self, stream: UUID, *, after: int, limit: int) -> list[EventRow]:
        """See `JournalSnapshot.events`."""
        return await self._run(
            lambda connection: reading.read_events(connection, stream, after, limit, False)[0]
        )

    async def controls(self, run_ids: Sequence[UUID]) -> list[Control]:
        """See `JournalSnapshot.controls`."""
        return await self._run(lambda connection: reading.read_controls(connection, run_ids))

    async def waits(self, run_ids: Sequence[UUID]) -> list[WaitRow]:
        """See `JournalSnapshot.waits`."""
        return await self._run(
            lambda connection: [
                reading.to_wait(row)
                for run_id in run_ids
                for row in connection.execute(_SELECT_WAITS, (run_id.bytes,))
            ]
        )

    async def links(self, digests: Sequence[bytes]) -> list[LinkRow]:
        """See `JournalSnapshot.links`."""
        return await self._run(
            lambda connection: _links(
                row for digest in digests for row in connection.execute(_SELECT_LINK, (digest,))
            )
        )

    async def links_after(self, digest: bytes, limit: int) -> list[LinkRow]:
        """See `JournalSnapshot.links_after`."""
        return await self._run(lambda connection: _links(connection.execute(_SELECT_LINKS, (digest, limit))))

    async def count_links(self) -> int:
        """See `JournalSnapshot.count_links`."""
        return int((await self.select("SELECT count(*) FROM links"))[0][0])

    async def sealed_size(self) -> int:
        """See `JournalSnapshot.sealed_size`."""
        return await self._run(lambda connection: sealing.sealed_size(connection.cursor()))

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        """See `JournalSnapshot.read_sealed`."""
        return await self._run(lambda connection: sealing.read_sealed(connection.cursor(), start, limit))

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        """See `JournalSnapshot.sealed_indexes`."""
        return await self._run(
            lambda connection: sealing.sealed_indexes(connection.cursor(), stream, versions)
        )

    async def select(self, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """See `JournalSnapshot.select`."""
        return await self._run(lambda connection: select(connection, text, values))

    async def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        def work() -> T:
            with translated():
                return query(self._connection)

        return await asyncio.to_thread(work)


@asynccontextmanager
async def open_snapshot(
    path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[SQLiteSnapshot]:
    """What is committed in the journal's file now. Raises `StoreUnavailableError` if it can't be read."""
    connection = await asyncio.to_thread(
        lambda: open_connection(path, read_only=True, busy_timeout_s=busy_timeout_s)
    )
    try:
        with translated():
            connection.execute("BEGIN")
            connection.execute("SELECT size FROM sealer").fetchone()  # the moment is that of the first read
        yield SQLiteSnapshot(connection)
    finally:
        connection.close()


def select(connection: sqlite3.Connection, text: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
    """Rows of a statement with `$1`, `$2`, …; ids are stored as 16 bytes."""
    plain = [value.bytes if isinstance(value, UUID) else value for value in values]
    return connection.execute(re.sub(r"\$(\d+)", r"?\1", text), plain).fetchall()


def _streams(connection: sqlite3.Connection, after: UUID | None, limit: int) -> list[UUID]:
    last = _FIRST if after is None else after
    found = {UUID(stream) for (stream,) in connection.execute(_SELECT_STREAMS, (last.hex, limit))}
    for statement in (_SELECT_CONTROLS, _SELECT_WAITING):
        found |= {UUID(bytes=run_id) for (run_id,) in connection.execute(statement, (last.bytes, limit))}
    return sorted(found)[:limit]


def _links(rows: Iterable[tuple[bytes, bytes, int]]) -> list[LinkRow]:
    return [LinkRow(digest, UUID(bytes=run_id), opened) for digest, run_id, opened in rows]
