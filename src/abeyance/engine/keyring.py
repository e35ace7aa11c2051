"""Run keys at hand: fresh ones made ahead, and a bounded cache of those in use.

Keys come from the key store in blocks, by a commit of their own, before any append needs one (docs/adr/0002).
A cached key outlives an erasure only as bytes in memory: the fence is `key_state` in the append's statement.
"""

import asyncio
from collections import OrderedDict, deque

from abeyance.crypto.sealing import RunKey
from abeyance.errors import ContentErasedError
from abeyance.journal.store import KeyStore

_AHEAD = 64
_CACHED = 4096


class KeyRing:
    """The run keys of one process."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._fresh: deque[RunKey] = deque()
        self._known: OrderedDict[int, RunKey] = OrderedDict()
        self._refill: asyncio.Task[None] | None = None

    async def fresh(self) -> RunKey:
        """A key that no run has. Durable in the key store before it is handed out."""
        if len(self._fresh) < _AHEAD // 2 and (self._refill is None or self._refill.done()):
            self._refill = asyncio.create_task(self._take())
        while not self._fresh:
            if self._refill is None or self._refill.done():
                self._refill = asyncio.create_task(self._take())
            await asyncio.shield(self._refill)
        return self._remember(self._fresh.popleft())

    async def get(self, key_id: int) -> RunKey:
        """The key with this id. Raises `ContentErasedError` if it was destroyed."""
        known = self._known.get(key_id)
        if known is not None:
            self._known.move_to_end(key_id)
            return known
        found = await self._store.get([key_id])
        if key_id not in found:
            raise ContentErasedError(1)
        return self._remember(RunKey(key_id, found[key_id]))

    def _remember(self, key: RunKey) -> RunKey:
        self._known[key.key_id] = key
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return key

    async def _take(self) -> None:
        self._fresh.extend(RunKey(key_id, key) for key_id, key in await self._store.take(_AHEAD))
