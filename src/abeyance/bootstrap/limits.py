"""The limit of requests to links, as the settings say: who counts, where, and whose word is believed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from abeyance.bootstrap.stores import Stores
from abeyance.crypto.sealing import RunKey
from abeyance.http.client_address import Proxies
from abeyance.http.rate_limit import RateLimiter
from abeyance.http.resources.link_gate import ClientGate
from abeyance.http.resources.links import LinkGate, OpenGate
from abeyance.journal.permits import MemoryPermits, PermitStore
from abeyance.settings import Settings
from abeyance.world import World


@dataclass(frozen=True, slots=True)
class LinkLimit:
    """The gate before links in this process, and its counters for `/metrics`."""

    gate: LinkGate
    counters: Callable[[], Mapping[str, float]]


@asynccontextmanager
async def open_link_limit(settings: Settings, stores: Stores) -> AsyncIterator[LinkLimit]:
    """The limit of this process. It gives back its permits when it is left."""
    if settings.link_rate == 0:
        yield LinkLimit(OpenGate(), dict)
        return
    limiter = RateLimiter(
        _permit_store(settings, stores.world),
        stores.world,
        settings.link_rate,
        cloak=_cloak(stores.signers.master),
    )
    tending = asyncio.create_task(limiter.run())
    try:
        yield LinkLimit(ClientGate(limiter, Proxies(settings.trusted_proxies)), limiter.counters)
    finally:
        tending.cancel()
        with suppress(asyncio.CancelledError):
            await tending
        await limiter.close()


def _permit_store(settings: Settings, world: World) -> PermitStore:
    """On PostgreSQL one for all processes; a SQLite store has one process, whose memory is enough."""
    if settings.database_url is None or not settings.on_postgres:
        return MemoryPermits(lambda: int(world.monotonic() * 1_000_000))
    from abeyance.journal.postgres.permits import PostgresPermits

    return PostgresPermits(settings.database_url, world)


def _cloak(master: bytes) -> Callable[[bytes], bytes]:
    """Makes 16 bytes of an address that say nothing without the deployment's master key."""
    key = RunKey(0, master)
    return lambda client: key.keyed_digest(b"abeyance/permits", client)[:16]
