"""Batches of appends that form by themselves.

While `in_flight` batches are on their way to the store, appends that come wait, and go together as the next
batch: one statement and one commit for as many runs as are ready by then. Nothing ever waits for a batch to
fill, so a lone append is sent at once. Each append still wins or loses by itself.
"""

import asyncio
from collections import deque
from uuid import UUID

from abeyance.journal.store import Append, JournalStore

MOST_IN_A_BATCH = 64


class AppendQueue:
    """The way of one process's appends to the store."""

    def __init__(self, store: JournalStore, *, in_flight: int) -> None:
        self._store = store
        self._room = in_flight
        self._waiting: deque[tuple[Append, asyncio.Future[bool]]] = deque()
        self._sending: set[asyncio.Task[None]] = set()

    async def append(self, append: Append) -> bool:
        """Write; whether it won. Raises what `JournalStore.append` raises."""
        if self._room > 0 and not self._waiting:
            self._room -= 1
            try:
                return (await self._store.append([append]))[0]
            finally:
                self._room += 1
                self._send()
        verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((append, verdict))
        return await verdict

    def _send(self) -> None:
        while self._room > 0 and self._waiting:
            self._room -= 1
            task = asyncio.get_running_loop().create_task(self._send_batch(self._next_batch()))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _next_batch(self) -> list[tuple[Append, "asyncio.Future[bool]"]]:
        """The oldest appends, at most one of each run: the store takes no two."""
        batch: list[tuple[Append, asyncio.Future[bool]]] = []
        left: list[tuple[Append, asyncio.Future[bool]]] = []
        runs: set[UUID] = set()
        while self._waiting and len(batch) < MOST_IN_A_BATCH:
            each = self._waiting.popleft()
            if each[0].run_id in runs:
                left.append(each)
            else:
                runs.add(each[0].run_id)
                batch.append(each)
        self._waiting.extendleft(reversed(left))
        return batch

    async def _send_batch(self, batch: list[tuple[Append, "asyncio.Future[bool]"]]) -> None:
        try:
            verdicts = await self._store.append([append for append, _ in batch])
        except BaseException as error:
            for _, verdict in batch:
                if not verdict.done():
                    verdict.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, verdict), won in zip(batch, verdicts, strict=True):
                if not verdict.done():
                    verdict.set_result(won)
        finally:
            self._room += 1
            self._send()
