"""How often a client may come: one limit over all processes, counted in memory as long as permits last.

A process draws permits where all processes count (`abeyance.journal.permits`) and uses them from memory: a
request of a client with permits left costs no store anything. A client's first request draws one, the next
ones draw blocks that double as long as they are used up, of at most a fortieth of the limit, so that little
lies unused in one process while another has none. Requests of one client that come while a draw is under
way share the next one.

Refused is answered from memory too, for at most a second: then the store is asked again, which is a read. So
`Retry-After`, which is at least a second, holds in every process. What was refused here takes no permit; what
passes here and is refused later (an unknown link, a bad body) does.

If the store of the permits fails or takes longer than two seconds, requests pass, and each process counts by
itself: at most the limit times the number of processes. A link that works is worth more than a limit that is
exact: the senders can't repair our store, and the link itself answers 503 when its own store is gone.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import ceil
from typing import Final
from uuid import UUID

from abeyance.errors import RateLimitedError
from abeyance.journal.permits import LONG_US, SHORT_US, Draw, Drawn, MemoryPermits, PermitStore, Settled
from abeyance.world import World

_LOG = logging.getLogger("abeyance.http.limit")
_MICROS: Final = 1_000_000
_LONG_S: Final = LONG_US / _MICROS
# A block is at most this part of the limit.
_BLOCK_SHARE: Final = 40
# How long a refusal is answered from memory, in seconds: not longer than the shortest Retry-After.
_REFUSED_S: Final = 1.0
_DRAW_TIMEOUT_S: Final = 2.0
# How long a store that failed is left alone.
_PAUSE_S: Final = 5.0
_MOST_CLIENTS: Final = 50_000
_TICK_S: Final = 1.0
_TICKS_A_FORGETTING: Final = 15
_MOST_SETTLED: Final = 1_000


class _Client:
    """What this process knows of one client. Times are of the monotonic clock."""

    __slots__ = (
        "block", "cloaked", "drawing", "drawn_at", "free_at", "key", "left", "refused_until", "size", "until",
        "used", "used_at", "waiting",
    )  # fmt: skip

    def __init__(self, key: bytes, cloaked: bytes) -> None:
        self.key = key
        self.cloaked = cloaked
        self.block: UUID | None = None
        self.left = 0
        self.until = 0.0
        self.used = 0
        self.used_at = 0.0
        self.size = 0
        self.drawn_at: float | None = None
        self.free_at = 0.0
        self.refused_until = 0.0
        self.waiting: list[asyncio.Future[None]] = []
        self.drawing = False

    def close_block(self, now: float) -> Settled | None:
        """What became of the open block; none is open after it."""
        if self.block is None:
            return None
        settled = Settled(self.cloaked, self.block, self.used, int((now - self.used_at) * _MICROS))
        if self.left:
            self.size = self.used // 2
        self.block, self.left = None, 0
        return settled

    def next_size(self, now: float, most: int) -> int:
        """How large a block this client has use for: twice the last one if that was used up, else what was
        used of it.
        """
        if self.drawn_at is None or now - self.drawn_at > _LONG_S:
            return 0
        return min(most, max(1, 2 * self.size))


class RateLimiter:
    """Lets each key pass `limit` times a minute over all processes.

    A key is any bytes; whoever counts different things puts the kind in front. `cloak` makes what the store
    sees of a key. `run` must be running: it gives back what isn't used.
    """

    def __init__(
        self,
        store: PermitStore,
        world: World,
        limit: int,
        *,
        cloak: Callable[[bytes], bytes] = bytes,
        most_clients: int = _MOST_CLIENTS,
    ) -> None:
        self._store = store
        self._spare = MemoryPermits(lambda: int(world.monotonic() * _MICROS))
        self._clock = world.monotonic
        self._limit = limit
        self._cloak = cloak
        self._most_clients = most_clients
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()
        self._open: dict[int, deque[tuple[float, _Client, UUID]]] = {LONG_US: deque(), SHORT_US: deque()}
        self._settled: deque[Settled] = deque()
        self._draws: set[asyncio.Task[None]] = set()
        self._prefix = int.from_bytes(world.random_bytes(8)) << 64
        self._blocks = 0
        self._down_until = 0.0
        self._down = False
        self._drawn = 0

    async def admit(self, key: bytes) -> None:
        """Return if the key may pass now. Raises `RateLimitedError`."""
        client = self._clients.get(key)
        now = self._clock()
        if client is None:
            client = self._remember(key, now)
        elif client.left and now < client.until:
            client.left -= 1
            client.used += 1
            client.used_at = now
            return
        elif now < client.refused_until:
            raise RateLimitedError(max(1, ceil(client.free_at - now)))
        await self._wait_for_draw(client)

    async def _wait_for_draw(self, client: _Client) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        client.waiting.append(waiter)
        if not client.drawing:
            client.drawing = True
            task = loop.create_task(self._draw_for(client))
            self._draws.add(task)
            task.add_done_callback(self._draws.discard)
        await waiter

    def _remember(self, key: bytes, now: float) -> _Client:
        client = self._clients[key] = _Client(key, self._cloak(key))
        if len(self._clients) > self._most_clients:
            _, gone = self._clients.popitem(last=False)
            if (settled := gone.close_block(now)) is not None:
                self._settled.append(settled)
        return client

    async def _draw_for(self, client: _Client) -> None:
        """Draw until nobody waits for this client's permits any more."""
        waiting: list[asyncio.Future[None]] = []
        try:
            while client.waiting:
                waiting, client.waiting = client.waiting, []
                _hand_out(waiting, await self._draw(client, len(waiting)))
        finally:  # the process ends: nobody may wait for ever
            client.drawing = False
            for waiter in (*waiting, *client.waiting):
                waiter.cancel()

    async def _draw(self, client: _Client, need: int) -> Drawn:
        now = self._clock()
        settled = client.close_block(now)
        extra = client.next_size(now, max(1, self._limit // _BLOCK_SHARE))
        self._blocks += 1
        block = UUID(int=self._prefix | self._blocks)
        draw = Draw(client.cloaked, need, extra, self._limit, block, settled)
        client.size, client.drawn_at = extra, now
        if client.key in self._clients:
            self._clients.move_to_end(client.key)
        drawn = await self._draw_anywhere(draw)
        if drawn.extra:
            # The store counted from a moment after this one: here the block ends earlier than there.
            client.block, client.left, client.used, client.used_at = draw.block, drawn.extra, 0, now
            client.until = now + drawn.valid_us / _MICROS
            self._open[drawn.valid_us].append((client.until, client, draw.block))
        if drawn.granted < need:
            now = self._clock()
            client.free_at = now + drawn.wait_us / _MICROS
            client.refused_until = min(client.free_at, now + _REFUSED_S)
        return drawn

    async def _draw_anywhere(self, draw: Draw) -> Drawn:
        """Draw where all processes count, or here as long as that can't be done."""
        self._drawn += 1
        if self._clock() >= self._down_until:
            try:
                async with asyncio.timeout(_DRAW_TIMEOUT_S):
                    drawn = await self._store.draw(draw)
            except Exception as error:
                self._note_down(error)
            else:
                self._note_up()
                return drawn
        return await self._spare.draw(draw._replace(extra=0, settled=None))

    def _note_down(self, error: Exception) -> None:
        self._down_until = self._clock() + _PAUSE_S
        if not self._down:
            self._down = True
            _LOG.warning(
                "the limit of requests can't be shared (%s): each process counts by itself for now",
                type(error).__name__,
            )

    def _note_up(self) -> None:
        if self._down:
            self._down = False
            _LOG.warning("the limit of requests is shared by all processes again")

    def counters(self) -> Mapping[str, float]:
        """For `/metrics`: how often permits were drawn, and whether all processes count together."""
        return {"abeyance_limit_draws_total": self._drawn, "abeyance_limit_shared": int(not self._down)}

    async def run(self) -> None:
        """Give back what isn't used and drop what doesn't count any more, until cancelled."""
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_S)
            ticks += 1
            await self._try(self.tend(forget=ticks % _TICKS_A_FORGETTING == 0))

    async def tend(self, *, forget: bool) -> None:
        """One round of `run`. What can't be given back stays charged as used at the end of its block."""
        self._close_ended(self._clock())
        await self._give_back()
        if forget:
            await self._spare.forget()
            await self._try(self._store.forget())

    async def close(self) -> None:
        """Give back every block; the process ends."""
        for task in self._draws:
            task.cancel()
        await asyncio.gather(*self._draws, return_exceptions=True)
        now = self._clock()
        self._settled.extend(s for client in self._clients.values() if (s := client.close_block(now)))
        self._clients.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAW_TIMEOUT_S):
                await self._give_back()
        await self._store.close()

    def _close_ended(self, now: float) -> None:
        for blocks in self._open.values():
            while blocks and blocks[0][0] <= now:
                _, client, block = blocks.popleft()
                if client.block == block and (settled := client.close_block(now)) is not None:
                    self._settled.append(settled)

    async def _give_back(self) -> None:
        while self._settled:
            some = [self._settled.popleft() for _ in range(min(_MOST_SETTLED, len(self._settled)))]
            if not await self._try(self._store.settle(some)):
                self._settled.clear()

    async def _try(self, work: Awaitable[None]) -> bool:
        """Whether this went well: what is counted is never worth an error."""
        try:
            await work
        except Exception as error:
            _LOG.info("permits couldn't be tended: %s", type(error).__name__)
            return False
        return True


def _hand_out(waiting: list[asyncio.Future[None]], drawn: Drawn) -> None:
    """Let through as many as were granted, and refuse the others."""
    for waiter in waiting[: drawn.granted]:
        if not waiter.done():  # else its request was cancelled, and the permit is lost
            waiter.set_result(None)
    seconds = max(1, ceil(drawn.wait_us / _MICROS))
    for waiter in waiting[drawn.granted :]:
        if not waiter.done():
            waiter.set_exception(RateLimitedError(seconds))
