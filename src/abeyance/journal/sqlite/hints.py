"""Hints inside one process: that something happened to a run. They may be lost; polling is the truth."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from uuid import UUID
from weakref import WeakSet

_MOST_WAITING = 10_000


class HintStream(AsyncIterator[UUID]):
    """What one listener has not taken yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[UUID | None] = asyncio.Queue(_MOST_WAITING)

    def put(self, run_id: UUID | None) -> None:
        """Add a hint, or with `None` the end. A listener that doesn't listen loses the oldest."""
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(run_id)

    async def __anext__(self) -> UUID:
        run_id = await self._queue.get()
        if run_id is None:
            self.put(None)
            raise StopAsyncIteration
        return run_id


class HintBoard:
    """Passes hints on to everybody who listens in this process."""

    def __init__(self) -> None:
        # Weak: a listener that went away without a word must not be kept.
        self._streams: WeakSet[HintStream] = WeakSet()

    def listen(self) -> HintStream:
        """Hints from now on."""
        stream = HintStream()
        self._streams.add(stream)
        return stream

    def tell(self, run_ids: Iterable[UUID]) -> None:
        """Pass these on."""
        for run_id in run_ids:
            for stream in self._streams:
                stream.put(run_id)

    def close(self) -> None:
        """End every stream."""
        for stream in self._streams:
            stream.put(None)
        self._streams.clear()
