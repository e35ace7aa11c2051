"""Requests that wait for a run: how many at once, and what is left of one whose client has gone.

1. A waiting request holds no thread, but memory: only so many wait, those beyond are told to wait no time.
2. What a request has begun is finished, whether its client is still there or not: an append is never cut
   in half. Its place is free again when the work is done, not when the client has gone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from abeyance.errors import RefusedError

_LOG = logging.getLogger("abeyance.http")

Result = TypeVar("Result")


class WaitingRequests:
    """Bounds the waiting requests of one process. `limit` is a count, `wait_s` how long each waits, in
    seconds.
    """

    def __init__(self, limit: int, wait_s: float) -> None:
        self._limit = limit
        self._wait_s = wait_s
        self._waiting = 0
        self._begun: set[asyncio.Future[Any]] = set()

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._waiting

    async def wait(self, work: Callable[[float], Awaitable[Result]]) -> Result:
        """Do `work`, which takes the seconds that it may wait: 0 if too many wait already."""
        return await self.finish(self.within(work))

    async def finish(self, work: Awaitable[Result]) -> Result:
        """Do `work` to its end, even if whoever asked for it is cancelled."""
        task = asyncio.ensure_future(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_note_end)
            raise

    async def within(self, work: Callable[[float], Awaitable[Result]]) -> Result:
        """As `wait`, for work that is a part of what is finished in any case."""
        if self._waiting >= self._limit:
            return await work(0.0)
        self._waiting += 1
        try:
            return await work(self._wait_s)
        finally:
            self._waiting -= 1


def _note_end(task: asyncio.Future[Result]) -> None:
    """Nobody is left to read an error: write what isn't a refusal to the log, and no text of it."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, RefusedError):
        _LOG.error("work failed after its client had gone: %s", type(error).__name__)
