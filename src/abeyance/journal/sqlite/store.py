"""The journal's store on SQLite, for one asyncio process.

Writes go to the one writer thread, which commits in groups. Reads run where they are asked for, on the
loop's own thread, over a second connection that can't write: a primary-key read takes some 20 µs, less than
handing it to a thread. Both see only what is committed. A lock file keeps other processes out.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from abeyance.errors import StoreUnavailableError
from abeyance.journal.sqlite import appending, claiming, reading, sealing
from abeyance.journal.sqlite.connection import BUSY_TIMEOUT_S, create_file, open_connection
from abeyance.journal.sqlite.faults import translated
from abeyance.journal.sqlite.hints import HintBoard
from abeyance.journal.sqlite.lock import FilesystemType, FolderLock, mounted_filesystem
from abeyance.journal.sqlite.schema import JOURNAL
from abeyance.journal.sqlite.snapshot import SQLiteSnapshot, open_snapshot
from abeyance.journal.sqlite.writer import GroupCommitWriter, Work
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
from abeyance.world import World, to_micros

DATABASE = "journal.sqlite3"

T = TypeVar("T")


class SQLiteJournalStore:
    """A `JournalStore` on one file. Made by `open_sqlite`; belongs to the loop that opened it."""

    def __init__(
        self,
        path: Path,
        world: World,
        lock: FolderLock,
        writing: sqlite3.Connection,
        reader: sqlite3.Connection,
        busy_timeout_s: float,
    ) -> None:
        self.path = path
        self._world = world
        self._lock = lock
        self._reader = reader
        self._busy_timeout_s = busy_timeout_s
        self._file = _identity(path)
        self._closed = False
        self._hints = HintBoard()
        self._writer = GroupCommitWriter(writing, asyncio.get_running_loop())

    async def append(self, appends: Sequence[Append]) -> list[bool]:
        """See `JournalStore.append`. Raises `ValueError` for a batch that no store could write."""
        batch = tuple(appends)
        check_appends(batch)
        if not batch:
            return []
        return await self._writer.run(partial(appending.write_appends, appends=batch))

    async def append_stream(self, stream: UUID, expected_version: int, events: Sequence[EventRow]) -> bool:
        """See `JournalStore.append_stream`."""
        rows = tuple(events)
        work = partial(appending.write_stream, stream=stream, expected_version=expected_version, events=rows)
        return await self._writer.run(work)

    async def read_run(self, run_id: UUID, *, after: int = 0, upto: int | None = None) -> StoredRun | None:
        """See `JournalStore.read_run`."""
        return self._read(lambda reader: reading.read_run(reader, run_id, after, upto))

    async def read_record(self, run_id: UUID) -> RunRecord | None:
        """See `JournalStore.read_record`."""
        return self._read(lambda reader: reading.read_record(reader, run_id))

    async def read_events(
        self, run_id: UUID, *, after: int, limit: int, contents: bool
    ) -> tuple[list[EventRow], dict[int, bytes]]:
        """See `JournalStore.read_events`."""
        return self._read(lambda reader: reading.read_events(reader, run_id, after, limit, contents))

    async def find_link(self, digest: bytes) -> StoredWait | None:
        """See `JournalStore.find_link`."""
        return self._read(lambda reader: reading.find_link(reader, digest))

    async def find_wait(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredWait | None:
        """See `JournalStore.find_wait`."""
        return self._read(lambda reader: reading.find_wait(reader, run_id, call_key, ordinal))

    async def find_content(self, run_id: UUID, version: int) -> bytes | None:
        """See `JournalStore.find_content`."""
        return self._read(lambda reader: reading.find_content(reader, run_id, version))

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """See `JournalStore.claim`. When there is nothing to claim, nothing is written."""
        if not self._read(lambda reader: claiming.find_claimable(reader.cursor(), request)):
            return []
        return await self._writer.run(partial(claiming.claim, request=request))

    async def renew(self, lease_ids: Sequence[UUID], lease_until: int) -> set[UUID]:
        """See `JournalStore.renew`."""
        if not lease_ids:
            return set()
        leases = tuple(lease_ids)
        return await self._writer.run(partial(claiming.renew, lease_ids=leases, lease_until=lease_until))

    async def release(self, run_id: UUID, lease_id: UUID, *, seen_version: int, due: int | None) -> None:
        """See `JournalStore.release`."""
        now = await self.now()
        await self._writer.run(
            lambda cursor: claiming.release(cursor, run_id, lease_id, seen_version, due, now)
        )

    async def offer(self, due: int, runs: Sequence[UUID] | None = None) -> int:
        """See `JournalStore.offer`."""
        return await self._writer.run(lambda cursor: claiming.offer(cursor, due, runs))

    async def put_definition(self, digest: bytes, document: bytes) -> bool:
        """See `JournalStore.put_definition`."""
        return await self._writer.run(partial(reading.put_definition, digest=digest, document=document))

    async def get_definition(self, digest: bytes) -> bytes | None:
        """See `JournalStore.get_definition`."""
        return self._read(lambda reader: reading.find_definition(reader, digest))

    async def seal(self, limit: int) -> int:
        """See `JournalStore.seal`. When there is nothing to seal, nothing is written."""
        size, more = self._read(
            lambda reader: (sealing.sealed_size(reader.cursor()), sealing.has_unsealed(reader.cursor()))
        )
        return await self._writer.run(partial(sealing.seal, limit=limit)) if more else size

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        """See `JournalStore.read_sealed`."""
        return self._read(lambda reader: sealing.read_sealed(reader.cursor(), start, limit))

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        """See `JournalStore.sealed_indexes`."""
        return self._read(lambda reader: sealing.sealed_indexes(reader.cursor(), stream, versions))

    def snapshot(self) -> AbstractAsyncContextManager[SQLiteSnapshot]:
        """See `JournalStore.snapshot`."""
        self._check_open()
        return open_snapshot(self.path, busy_timeout_s=self._busy_timeout_s)

    async def write(self, work: Work[T]) -> T:
        """Run `work` on the writer's thread and return what it does once that is on disk.

        It shares its transaction with other writes, in a savepoint of its own, and must be short.
        """
        return await self._writer.run(work)

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a short query on the loop's thread, over one moment of the database."""
        return self._read(query)

    async def hint(self, run_ids: Sequence[UUID]) -> None:
        """See `JournalStore.hint`."""
        self._hints.tell(run_ids)

    def hints(self) -> AsyncIterator[UUID]:
        """See `JournalStore.hints`. Starts to listen at once."""
        return self._hints.listen()

    async def now(self) -> int:
        """See `JournalStore.now`: the host's clock."""
        return to_micros(self._world.now())

    async def check_writable(self) -> None:
        """See `JournalStore.check_writable`: writes and commits one page."""
        if _identity(self.path) != self._file:
            raise StoreUnavailableError(
                f"{self.path} was moved or replaced: restart to use the file there now"
            )
        await self._writer.run(lambda cursor: cursor.execute("UPDATE sealer SET size = size").rowcount)

    async def checkpoint(self) -> bool:
        """Move the whole write-ahead log into the database and empty it; `False` if a reader held it up."""
        self._check_open()
        return await asyncio.to_thread(_checkpoint, self.path, self._busy_timeout_s)

    async def close(self) -> None:
        """See `JournalStore.close`. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._hints.close()
        self._reader.close()
        await self._writer.close()
        self._lock.release()

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with self._snapshot() as reader:
            return query(reader)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """One moment of the database, for however many statements."""
        self._check_open()
        with translated():
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                self._reader.rollback()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError("the store is closed")


async def open_sqlite(
    folder: Path,
    world: World,
    *,
    database: str = DATABASE,
    filesystem_type: FilesystemType = mounted_filesystem,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> SQLiteJournalStore:
    """Open the journal in `folder`, which is made if there is none, and end the leases of a dead process.

    `database` is the name of its file; the lock is beside it.

    Raises `ConfigurationError` if another process has it or the folder can't hold a store.
    """
    path = folder / database
    lock = await asyncio.to_thread(FolderLock.acquire, path.with_suffix(".lock"), filesystem_type)
    try:
        now = to_micros(world.now())
        writing, reader = await asyncio.to_thread(_open_both, path, busy_timeout_s, now)
        return SQLiteJournalStore(path, world, lock, writing, reader, busy_timeout_s)
    except BaseException:
        lock.release()
        raise


def _open_both(path: Path, busy_timeout_s: float, now: int) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    create_file(path)
    writing = open_connection(path, busy_timeout_s=busy_timeout_s)
    try:
        JOURNAL.ensure(writing)
        with translated():
            claiming.take_over(writing.cursor(), now)
        return writing, open_connection(path, read_only=True, busy_timeout_s=busy_timeout_s)
    except BaseException:
        writing.close()
        raise


def _checkpoint(path: Path, busy_timeout_s: float) -> bool:
    connection = open_connection(path, busy_timeout_s=busy_timeout_s)
    try:
        with translated():
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
    finally:
        connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
