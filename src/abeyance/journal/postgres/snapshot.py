"""One moment of the journal on PostgreSQL: a connection of its own, in one transaction that only reads."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import AsyncRawCursor

from abeyance.journal.postgres import lookup, sealing
from abeyance.journal.postgres.connecting import open_connection
from abeyance.journal.postgres.failures import translate
from abeyance.journal.postgres.session import DEFAULT_SETTINGS, SessionSettings
from abeyance.journal.store import Control, EventRow, LinkRow, SealedEvent, WaitRow

Result = TypeVar("Result")

_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL statement_timeout = '120s'",
    "SET LOCAL idle_in_transaction_session_timeout = '120s'",
)
_FIRST = UUID(int=0)
_STREAMS = """
SELECT id FROM (
    (SELECT DISTINCT originator_id AS id FROM journal_events WHERE originator_id > $1 ORDER BY 1 LIMIT $2)
    UNION (SELECT run_id FROM run_control WHERE run_id > $1 ORDER BY 1 LIMIT $2)
    UNION (SELECT DISTINCT run_id FROM waits WHERE run_id > $1 ORDER BY 1 LIMIT $2)
) AS found ORDER BY id LIMIT $2
"""
_EVENTS = """
SELECT originator_id, originator_version, topic, state FROM journal_events
WHERE originator_id = $1 AND originator_version > $2 ORDER BY originator_version LIMIT $3
"""
_CONTROLS = "SELECT * FROM control_rows WHERE run_id = ANY ($1)"
_WAITS = """
SELECT run_id, opened, call_key, ordinal, state, paused, answer, due, closed FROM waits
WHERE run_id = ANY ($1) ORDER BY run_id, opened
"""
_LINKS = "SELECT digest, run_id, opened FROM links WHERE digest = ANY ($1)"
_LINKS_AFTER = "SELECT digest, run_id, opened FROM links WHERE digest > $1 ORDER BY digest LIMIT $2"


class PostgresSnapshot:
    """See `abeyance.journal.store.JournalSnapshot`. Made by `open_snapshot`."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def streams(self, after: UUID | None, limit: int) -> list[UUID]:
        """See `JournalSnapshot.streams`."""
        rows = await self.select(_STREAMS, (_FIRST if after is None else after, limit))
        return [stream for (stream,) in rows]

    async def events(self, stream: UUID, *, after: int, limit: int) -> list[EventRow]:
        """See `JournalSnapshot.events`."""
        return [EventRow(*row) for row in await self.select(_EVENTS, (stream, after, limit))]

    async def controls(self, run_ids: Sequence[UUID]) -> list[Control]:
        """See `JournalSnapshot.controls`."""
        return [Control(*row) for row in await self.select(_CONTROLS, (list(run_ids),))]

    async def waits(self, run_ids: Sequence[UUID]) -> list[WaitRow]:
        """See `JournalSnapshot.waits`."""
        return [WaitRow(*row) for row in await self.select(_WAITS, (list(run_ids),))]

    async def links(self, digests: Sequence[bytes]) -> list[LinkRow]:
        """See `JournalSnapshot.links`."""
        return [LinkRow(*row) for row in await self.select(_LINKS, (list(digests),))]

    async def links_after(self, digest: bytes, limit: int) -> list[LinkRow]:
        """See `JournalSnapshot.links_after`."""
        return [LinkRow(*row) for row in await self.select(_LINKS_AFTER, (digest, limit))]

    async def count_links(self) -> int:
        """See `JournalSnapshot.count_links`."""
        return int((await self.select("SELECT count(*) FROM links"))[0][0])

    async def sealed_size(self) -> int:
        """See `JournalSnapshot.sealed_size`."""
        return int((await self.select("SELECT size FROM sealer"))[0][0])

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        """See `JournalSnapshot.read_sealed`."""
        return await self._carry_out(sealing.read_sealed(start, limit))

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        """See `JournalSnapshot.sealed_indexes`."""
        return await self._carry_out(lookup.sealed_indexes(stream, versions))

    async def select(self, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """See `JournalSnapshot.select`."""
        try:
            async with AsyncRawCursor(self._connection) as cursor:
                await cursor.execute(text.encode(), values, binary=True)
                return await cursor.fetchall()
        except psycopg.Error as error:
            known = translate(error, lost=self._connection.broken)
            if known is None:
                raise
            raise known from error

    async def _carry_out(self, steps: sealing.Steps[Result]) -> Result:
        try:
            query, values = next(steps)
            while True:
                query, values = steps.send(await self.select(query.text.decode(), values))
        except StopIteration as ended:
            result: Result = ended.value
            return result


@asynccontextmanager
async def open_snapshot(
    url: str, settings: SessionSettings = DEFAULT_SETTINGS
) -> AsyncIterator[PostgresSnapshot]:
    """What is committed in the database now. Raises `StoreUnavailableError` if it can't be reached."""
    connection = await open_connection(url, settings)
    try:
        for statement in _BEGIN:
            await connection.execute(statement.encode())
        snapshot = PostgresSnapshot(connection)
        await snapshot.sealed_size()  # the moment is that of the first read
        yield snapshot
    finally:
        await connection.close()
