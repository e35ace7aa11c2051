"""Hints between processes: NOTIFY with ids only, after the commit, in a statement of its own.

A notification inside an append's transaction would hold every commit of the cluster to one at a time, and
a payload of 8000 bytes would roll it back. Hints may be lost: whoever listens polls as well.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg

from abeyance.errors import AbeyanceError
from abeyance.journal.postgres.wire import statement

CHANNEL = "abeyance"
IDS_A_NOTIFICATION = 240  # 32 characters each: 7680 bytes, PostgreSQL takes less than 8000
_MOST_WAITING = 10_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

NOTIFY = statement(f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1) AS payload", "text[]")


def payloads(run_ids: Sequence[UUID]) -> list[str]:
    """The ids as texts that fit into a notification each."""
    names = [run_id.hex for run_id in dict.fromkeys(run_ids)]
    starts = range(0, len(names), IDS_A_NOTIFICATION)
    return ["".join(names[start : start + IDS_A_NOTIFICATION]) for start in starts]


def ids_in(payload: str) -> list[UUID]:
    """The ids in a payload; none if somebody else sent it."""
    with suppress(ValueError):
        return [UUID(hex=payload[start : start + 32]) for start in range(0, len(payload), 32)]
    return []


class HintStream(AsyncIterator[UUID]):
    """Hints from now on, over a connection of its own that is made anew whenever it is lost.

    `listening` is set while the connection listens. A listener that takes nothing loses the oldest.
    """

    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._queue: asyncio.Queue[UUID | None] = asyncio.Queue(_MOST_WAITING)
        self.listening = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._listen_for_ever())

    async def __anext__(self) -> UUID:
        run_id = await self._queue.get()
        if run_id is None:
            self._put(None)
            raise StopAsyncIteration
        return run_id

    async def close(self) -> None:
        """End the stream."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._put(None)

    def _put(self, run_id: UUID | None) -> None:
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(run_id)

    async def _listen_for_ever(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            with suppress(psycopg.Error, AbeyanceError, OSError):
                await self._listen()
            if self.listening.is_set():
                self.listening.clear()
                pause = _FIRST_PAUSE_S
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _listen(self) -> None:
        async with await self._connect() as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self.listening.set()
            async for notification in connection.notifies():
                for run_id in ids_in(notification.payload):
                    self._put(run_id)
