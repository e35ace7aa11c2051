"""Permits in PostgreSQL: one count for all processes, in an unlogged table beside the journal.

Two sessions of its own, opened when they are first needed: drawing never waits for the journal's, nor the
journal for it. Nothing is checked when it is made, so that a process starts without it.
"""

from collections.abc import Sequence
from typing import Final

from abeyance.journal.permits import Draw, Drawn, Settled
from abeyance.journal.postgres.clock import DatabaseClock
from abeyance.journal.postgres.connecting import open_session, read_rows
from abeyance.journal.postgres.pool import Pool
from abeyance.journal.postgres.session import DEFAULT_SETTINGS, Session, SessionSettings
from abeyance.journal.postgres.wire import rows_of, value_of
from abeyance.world import World

_DRAW: Final = rows_of(
    "permits_draw", "bytea", "bigint", "bigint", "bigint", "uuid", "uuid", "bigint", "bigint", "bigint"
)
_SETTLE: Final = value_of("permits_settle", "bytea[]", "uuid[]", "bigint[]", "bigint[]", "bigint")
_FORGET: Final = value_of("permits_forget", "bigint")
_CONNECTIONS: Final = 2
_MOST_FORGOTTEN: Final = 5_000


class PostgresPermits:
    """See `abeyance.journal.permits.PermitStore`. To be used in one running loop, after a fork.

    `testing_only_moment` stands for the database's clock, in microseconds.
    """

    def __init__(
        self,
        url: str,
        world: World,
        settings: SessionSettings = DEFAULT_SETTINGS,
        *,
        testing_only_moment: int | None = None,
    ) -> None:
        self._url = url
        self._settings = settings
        self._clock = DatabaseClock(world)
        self._pool = Pool(self._connect, _CONNECTIONS, settings.statement_timeout_s)
        self.testing_only_moment = testing_only_moment

    async def _connect(self) -> Session:
        return await open_session(self._url, self._settings, self._clock)

    async def draw(self, draw: Draw) -> Drawn:
        """See `PermitStore.draw`."""
        closed = draw.settled
        ((granted, extra, valid_us, wait_us),) = read_rows(
            await self._pool.run(
                _DRAW,
                draw.key,
                draw.need,
                draw.extra,
                draw.limit,
                draw.block,
                closed.block if closed else None,
                closed.used if closed else 0,
                closed.age_us if closed else 0,
                self.testing_only_moment,
            )
        )
        return Drawn(granted, extra, valid_us, wait_us)

    async def settle(self, blocks: Sequence[Settled]) -> None:
        """See `PermitStore.settle`."""
        if not blocks:
            return
        keys, closed, used, ages = zip(*blocks, strict=True)
        await self._pool.run(_SETTLE, keys, closed, used, ages, self.testing_only_moment)

    async def forget(self) -> None:
        """See `PermitStore.forget`."""
        dropped = _MOST_FORGOTTEN
        while dropped == _MOST_FORGOTTEN:
            ((dropped,),) = read_rows(await self._pool.run(_FORGET, self.testing_only_moment))

    async def close(self) -> None:
        """See `PermitStore.close`."""
        await self._pool.close()
