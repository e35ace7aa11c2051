"""The journal on PostgreSQL: the port of `abeyance.journal.store` over a pool of sessions.

Every write is one call of one function, so one transaction and one round trip; there is no lock but the
run's own. What a connection that was lost in the middle of an append did is looked up before the caller is
told anything.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation

from abeyance.errors import PerhapsStoredError, StoreUnavailableError, VerificationError
from abeyance.journal.postgres import lookup, reading, sealing
from abeyance.journal.postgres.appending import APPEND, columns
from abeyance.journal.postgres.clock import DatabaseClock
from abeyance.journal.postgres.connecting import PROBE, open_connection, open_session, read_rows
from abeyance.journal.postgres.failures import ConnectionLostError
from abeyance.journal.postgres.hints import NOTIFY, HintStream, payloads
from abeyance.journal.postgres.migrations import JOURNAL
from abeyance.journal.postgres.pool import Pool
from abeyance.journal.postgres.sealing import Result
from abeyance.journal.postgres.session import DEFAULT_SETTINGS, Session, SessionSettings
from abeyance.journal.postgres.snapshot import PostgresSnapshot, open_snapshot
from abeyance.journal.postgres.wire import Statement, rows_of, statement, value_of
from abeyance.journal.store import (
    Append,
    Claim,
    ClaimRequest,
    EventRow,
    RunRecord,
    SealedEvent,
    StoredRun,
    StoredWait,
    check_appends,
)
from abeyance.world import World, from_micros

# After a lost connection: how often, and after which pauses, the first event is looked for.
LOOKUP_PAUSES_S = (0.0, 0.1, 0.3, 0.6, 1.0)

_LANDED = value_of("journal_landed", "uuid", "bigint", "bytea")
_APPEND_STREAM = value_of("journal_append_stream", "uuid", "bigint", "bigint[]", "text[]", "bytea[]")
_CLAIM = rows_of(
    "journal_claim", "bigint", "bigint", "bigint", "bigint", "uuid[]", "bytea[]", "uuid[]", "bigint", "text[]"
)
_RENEW = rows_of("journal_renew", "uuid[]", "bigint")
_OFFER = value_of("journal_offer", "bigint", "boolean", "uuid[]")
_RELEASE = value_of("journal_release", "uuid", "uuid", "bigint", "bigint")
_PUT_DEFINITION = statement(
    "WITH new AS (INSERT INTO definitions (digest, document) VALUES ($1, $2)"
    " ON CONFLICT (digest) DO NOTHING RETURNING 1) SELECT count(*) FROM new",
    "bytea", "bytea",
)  # fmt: skip
_CHECK_WRITABLE = statement(
    "SELECT current_setting('transaction_read_only') = 'off' AND NOT pg_is_in_recovery()"
)


async def open_postgres(
    url: str, world: World, settings: SessionSettings = DEFAULT_SETTINGS
) -> "PostgresJournalStore":
    """The store in the database at `url`, in the running loop and this process (after a fork, not before).

    `world` gives the monotonic clock. Raises `ConfigurationError` if the database isn't migrated, is newer
    than this release, or loses what it acknowledged; `StoreUnavailableError` if it can't be reached.
    """
    store = PostgresJournalStore(url, world, settings)
    try:
        ((version,),) = await store.fetch(JOURNAL.select_version)
        JOURNAL.check_version(version)
    except BaseException:
        await store.close()
        raise
    return store


class PostgresJournalStore:
    """See `abeyance.journal.store.JournalStore`. Made by `open_postgres`."""

    def __init__(self, url: str, world: World, settings: SessionSettings) -> None:
        self._url = url
        self._world = world
        self._settings = settings
        self._clock = DatabaseClock(world)
        self._pool = Pool(self._connect, settings.connections, settings.statement_timeout_s)
        self._streams: list[HintStream] = []

    @property
    def idle_connections(self) -> int:
        """How many connections are open and unused."""
        return self._pool.idle

    async def _connect(self) -> Session:
        return await open_session(self._url, self._settings, self._clock)

    async def fetch(self, query: Statement, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        return read_rows(await self._pool.run(query, *values))

    async def append(self, appends: Sequence[Append]) -> list[bool]:
        """See `JournalStore.append`."""
        if not appends:
            return []
        check_appends(appends)
        try:
            ((winners,),) = await self.fetch(APPEND, *columns(appends))
        except ConnectionLostError as error:
            return await self._look_up(appends, error)
        except UniqueViolation:
            # The second line: an event or link with this key is there already. Only its own append loses.
            if len(appends) == 1:
                return [False]
            return [won for append in appends for won in await self.append([append])]
        return [item in winners for item in range(1, len(appends) + 1)]

    async def _look_up(self, appends: Sequence[Append], lost: ConnectionLostError) -> list[bool]:
        """Which of them landed. A batch is one transaction: if any did, the others lost the comparison."""
        landed = [await self.has_landed(append.events[0], lost) for append in appends]
        if any(landed):
            return landed
        raise StoreUnavailableError("the connection to the database was lost, nothing was written") from lost

    async def has_landed(self, event: EventRow, lost: ConnectionLostError) -> bool:
        """Whether an event that was sent on a lost connection is stored. Raises `StoreUnavailableError` if
        nobody can say.
        """
        for pause in LOOKUP_PAUSES_S:
            await asyncio.sleep(pause)
            try:
                ((landed,),) = await self.fetch(_LANDED, event.run_id, event.version, event.state)
            except StoreUnavailableError:
                continue
            return bool(landed)
        raise PerhapsStoredError(
            "the connection to the database was lost and can't be made again: what was sent may be stored"
        ) from lost

    async def read_run(self, run_id: UUID, *, after: int = 0, upto: int | None = None) -> StoredRun | None:
        """See `JournalStore.read_run`."""
        last = reading.LAST_VERSION if upto is None else upto
        return reading.to_run(await self.fetch(reading.READ_RUN, run_id, after, last))

    async def read_record(self, run_id: UUID) -> RunRecord | None:
        """See `JournalStore.read_record`."""
        return reading.to_record(run_id, await self.fetch(reading.READ_RECORD, run_id))

    async def read_events(
        self, run_id: UUID, *, after: int, limit: int, contents: bool
    ) -> tuple[list[EventRow], dict[int, bytes]]:
        """See `JournalStore.read_events`."""
        rows = await self.fetch(reading.READ_EVENTS, run_id, after, max(limit, 0), contents)
        return reading.to_page(run_id, rows)

    async def find_link(self, digest: bytes) -> StoredWait | None:
        """See `JournalStore.find_link`."""
        return reading.to_wait(await self.fetch(reading.FIND_LINK, digest))

    async def find_wait(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredWait | None:
        """See `JournalStore.find_wait`."""
        return reading.to_wait(await self.fetch(reading.FIND_WAIT, run_id, call_key, ordinal))

    async def find_content(self, run_id: UUID, version: int) -> bytes | None:
        """See `JournalStore.find_content`."""
        rows = await self.fetch(reading.FIND_CONTENT, run_id, version)
        return rows[0][0] if rows else None

    async def append_stream(self, stream: UUID, expected_version: int, events: Sequence[EventRow]) -> bool:
        """See `JournalStore.append_stream`."""
        versions, topics, states = ([event[column] for event in events] for column in (1, 2, 3))
        try:
            ((won,),) = await self.fetch(_APPEND_STREAM, stream, expected_version, versions, topics, states)
        except UniqueViolation:
            return False
        except ConnectionLostError as lost:
            if await self.has_landed(events[0], lost):
                return True
            raise StoreUnavailableError(
                "the connection to the database was lost, nothing was written"
            ) from lost
        return bool(won)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """See `JournalStore.claim`."""
        room = min(request.room, len(request.lease_ids))
        if room <= 0:
            return []
        rows = await self.fetch(
            _CLAIM, request.now, request.lease_until, room, request.lease_ids[0].int % 3,
            request.lease_ids[:room], request.definitions, list(dict.fromkeys(request.hinted)),
            request.grace_micros, request.passed,
        )  # fmt: skip
        return [Claim(run_id, lease_id, lost) for run_id, lease_id, lost in rows]

    async def renew(self, lease_ids: Sequence[UUID], lease_until: int) -> set[UUID]:
        """See `JournalStore.renew`."""
        return {lease_id for (lease_id,) in await self.fetch(_RENEW, lease_ids, lease_until)}

    async def release(self, run_id: UUID, lease_id: UUID, *, seen_version: int, due: int | None) -> None:
        """See `JournalStore.release`."""
        await self.fetch(_RELEASE, run_id, lease_id, seen_version, due)

    async def offer(self, due: int, runs: Sequence[UUID] | None = None) -> int:
        """See `JournalStore.offer`."""
        ((offered,),) = await self.fetch(_OFFER, due, runs is None, runs or ())
        return int(offered)

    async def put_definition(self, digest: bytes, document: bytes) -> bool:
        """See `JournalStore.put_definition`."""
        return await self.fetch(_PUT_DEFINITION, digest, document) == [(1,)]

    async def get_definition(self, digest: bytes) -> bytes | None:
        """See `JournalStore.get_definition`."""
        rows = await self.fetch(reading.GET_DEFINITION, digest)
        if not rows:
            return None
        document: bytes = rows[0][0]
        if hashlib.sha256(document).digest() != digest:
            where = f"definition {digest.hex()}"
            raise VerificationError("the stored document doesn't have this digest", where)
        return document

    async def seal(self, limit: int) -> int:
        """See `JournalStore.seal`."""
        return await self._carry_out(sealing.seal(limit))

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        """See `JournalStore.read_sealed`. An event whose row is gone is left out."""
        return await self._carry_out(sealing.read_sealed(start, limit))

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        """See `JournalStore.sealed_indexes`."""
        return await self._carry_out(lookup.sealed_indexes(stream, versions))

    def snapshot(self) -> AbstractAsyncContextManager[PostgresSnapshot]:
        """See `JournalStore.snapshot`."""
        return open_snapshot(self._url, self._settings)

    async def _carry_out(self, steps: sealing.Steps[Result]) -> Result:
        rows: Any = None
        while True:
            try:
                query, values = steps.send(rows)
            except StopIteration as end:
                result: Result = end.value
                return result
            rows = await self.fetch(query, *values)

    async def hint(self, run_ids: Sequence[UUID]) -> None:
        """See `JournalStore.hint`."""
        if run_ids:
            await self.fetch(NOTIFY, payloads(run_ids))

    def hints(self) -> HintStream:
        """See `JournalStore.hints`."""
        url = self._settings.listen_url or self._url
        stream = HintStream(lambda: open_connection(url, self._settings))
        self._streams.append(stream)
        return stream

    async def now(self) -> int:
        """See `JournalStore.now`."""
        if self._clock.stale:
            await self._read_clock()
        return self._clock.now()

    async def clock_offset(self) -> timedelta:
        """The database's time less `world.now()`, read now: what a `SystemWorld` without an offset lacks."""
        await self._read_clock()
        return from_micros(self._clock.now()) - self._world.now()

    async def _read_clock(self) -> None:
        asked = self._clock.reading()
        self._clock.observe(asked, (await self.fetch(PROBE))[0][0])

    async def check_writable(self) -> None:
        """See `JournalStore.check_writable`."""
        if await self.fetch(_CHECK_WRITABLE) != [(True,)]:
            raise StoreUnavailableError("the database is read-only")

    async def close(self) -> None:
        """See `JournalStore.close`."""
        for stream in self._streams:
            await stream.close()
        await self._pool.close()
