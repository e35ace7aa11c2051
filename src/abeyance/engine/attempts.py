"""What was tried at links, for the operator: noted behind the reply, written in batches, dropped if too many.

Nothing here delays or fails a link: `note` puts an attempt into a bounded queue and returns; one task writes
what has come together. Attempts that are over the limit of requests, or that name no known link, are no
attempts: a flood writes nothing.
"""

import asyncio
import contextlib
import hmac
import logging
from collections import deque
from hashlib import sha256
from uuid import UUID

from abeyance.errors import StoreUnavailableError
from abeyance.journal.attempts import Attempt, AttemptStore, StoredAttempts, size_bucket
from abeyance.journal.run import parse_token_id
from abeyance.world import World, to_micros

MOST_QUEUED = 2_000
BATCH = 200
EVERY_S = 0.5
CLIENT_BYTES = 8
_log = logging.getLogger("abeyance.attempts")


class LinkAttempts:
    """The attempts of one process. `secret` keys the hash of addresses; `every_s` is how long attempts come
    together, in seconds, before they are written.
    """

    def __init__(self, store: AttemptStore, world: World, secret: bytes, *, every_s: float = EVERY_S) -> None:
        self._store = store
        self._world = world
        self._secret = secret
        self._every_s = every_s
        self._queue: deque[Attempt] = deque()
        self._came = asyncio.Event()
        self._failing = False
        self.dropped = 0

    def note(self, run_id: UUID, wait_id: str, *, verdict: str, size: int | None, client: bytes) -> None:
        """An attempt was answered with `verdict`. `size` is the body's in bytes, `client` the sender's
        address. Never waits, never raises.
        """
        named = parse_token_id(wait_id)
        if named is None or len(self._queue) >= MOST_QUEUED:
            self.dropped += 1
            return
        hashed = hmac.digest(self._secret, client, sha256)[:CLIENT_BYTES]
        bucket = None if size is None else size_bucket(size)
        self._queue.append(Attempt(run_id, *named, to_micros(self._world.now()), verdict, bucket, hashed))
        self._came.set()

    async def find(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredAttempts:
        """What is kept of one wait, with what this process has noted so far.

        Raises `StoreUnavailableError`.
        """
        await self.flush()
        return await self._store.find(run_id, call_key, ordinal)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._came.wait()
            await asyncio.sleep(self._every_s)
            await self.flush()

    async def flush(self) -> None:
        """Write what is queued now. What can't be written is dropped."""
        self._came.clear()
        for _ in range(len(self._queue) // BATCH + 1):
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            if batch:
                await self._write(batch)

    async def close(self) -> None:
        """Write what is left, as far as that is possible."""
        with contextlib.suppress(Exception):
            await self.flush()

    async def _write(self, batch: list[Attempt]) -> None:
        try:
            await self._store.add(batch)
        except StoreUnavailableError:
            self._drop(batch, "the store can't be used")
        except Exception as error:
            self._drop(batch, type(error).__name__)
        else:
            self._failing = False

    def _drop(self, batch: list[Attempt], reason: str) -> None:
        self.dropped += len(batch)
        if not self._failing:
            _log.warning("attempts at links aren't kept: %s", reason)
        self._failing = True
