"""The one writer thread, with group commit.

Every request that waits when the thread is free goes into one transaction: one fsync for all of them
(`synchronous=FULL`). Each runs in a savepoint of its own, so a request that fails takes nothing with it
and hurts nobody. If the disk fails, all of them fail, nothing was written, and the next ones try again.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from abeyance.errors import StoreUnavailableError
from abeyance.journal.sqlite.faults import unavailable

T = TypeVar("T")
Work = Callable[[sqlite3.Cursor], T]

_MOST_A_COMMIT = 256


@dataclass(slots=True)
class _Request:
    work: Work[Any]
    future: "asyncio.Future[Any]"
    value: Any = None
    error: BaseException | None = None


class GroupCommitWriter:
    """Runs requests on its own thread over one connection, which it owns and closes."""

    def __init__(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="journal-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work[T]) -> T:
        """Run `work` in a transaction; what it returns, once that is on disk."""
        if self._closed:
            raise StoreUnavailableError("the store is closed")
        request = _Request(work, self._loop.create_future())
        self._requests.put(request)
        value: T = await request.future
        return value

    async def close(self) -> None:
        """Finish what waits, and end the thread. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._requests.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while batch := self._next_batch():
            self._commit(batch)
            try:
                self._loop.call_soon_threadsafe(_deliver, batch)
            except RuntimeError:  # the loop is closed: nobody waits any more
                break
        self._connection.close()

    def _next_batch(self) -> list[_Request]:
        """What waits now; empty when the writer is closed and nothing waits."""
        first = self._requests.get()
        batch = [] if first is None else [first]
        while batch and len(batch) < _MOST_A_COMMIT:
            try:
                request = self._requests.get_nowait()
            except Empty:
                break
            if request is None:
                self._requests.put(None)
                break
            batch.append(request)
        return batch

    def _commit(self, batch: list[_Request]) -> None:
        try:
            self._roll_back()
            cursor = self._connection.execute("BEGIN IMMEDIATE")
            for request in batch:
                _attempt(cursor, request)
            self._connection.execute("COMMIT")
        except Exception as error:
            for request in batch:
                request.error = unavailable(error) or error
            self._roll_back()

    def _roll_back(self) -> None:
        """Also before a transaction: a disk that failed may have kept the last one from ending."""
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.rollback()


def _attempt(cursor: sqlite3.Cursor, request: _Request) -> None:
    """Run one request. An error of its own is kept for it; one of the disk is everybody's and raised."""
    cursor.execute("SAVEPOINT request")
    try:
        request.value = request.work(cursor)
    except Exception as error:
        if unavailable(error) is not None:
            raise
        request.error = error
        cursor.execute("ROLLBACK TO request")
    cursor.execute("RELEASE request")


def _deliver(batch: list[_Request]) -> None:
    for request in batch:
        if request.future.done():  # whoever waited was cancelled
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.value)
