"""The follower: seals what was committed and brings the following read models up to it.

One task a process. On PostgreSQL one process at a time does it in the background, by lease; any process may
do it at any moment for a reader that must see what was just written, and nothing is applied twice. A store
that is gone stops it only until it is back. An event of a newer release stops it loudly: then the lease is
given back, so that a newer process can go on.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from uuid import UUID

from abeyance.errors import AbeyanceError, StoreUnavailableError
from abeyance.journal.store import JournalStore
from abeyance.projections.read_models import Place, ReadModel, ReadModelStore

_log = logging.getLogger("abeyance.follower")

BATCH = 250
LEASE_S = 5.0
BUSY_S = 0.1
IDLE_S = 1.0


class Follower:
    """See the module. `holder` is this process's random id; times are in seconds.

    Between two looks it pauses `busy_s` while there is something to do, and up to `idle_s` when there isn't.
    """

    def __init__(
        self,
        journal: JournalStore,
        store: ReadModelStore,
        models: Sequence[ReadModel],
        *,
        holder: UUID,
        batch: int = BATCH,
        busy_s: float = BUSY_S,
        idle_s: float = IDLE_S,
        lease_s: float = LEASE_S,
    ) -> None:
        self._journal = journal
        self._store = store
        self._models = tuple(models)
        self._holder = holder
        self._batch = batch
        self._busy_s = busy_s
        self._idle_s = idle_s
        self._lease_s = lease_s
        self._leads_until = float("-inf")
        self._asks_again_at = float("-inf")
        self._places: dict[str, Place] = {}
        self._woken = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._quiet = False

    @property
    def leads(self) -> bool:
        """Whether this process follows for all, as far as it knows."""
        return asyncio.get_running_loop().time() < self._leads_until

    def wake(self) -> None:
        """Say that something was committed here: it is looked at within `busy_s`."""
        self._woken.set()

    async def run(self) -> None:
        """Follow until cancelled, then give the lease back."""
        pause = self._busy_s
        try:
            while True:
                pause = self._busy_s if await self._look() else min(pause * 2, self._idle_s)
                await self._rest(pause)
        finally:
            with contextlib.suppress(AbeyanceError):
                await self._store.resign(self._holder)

    async def catch_up(self, *, within_s: float | None = None) -> bool:
        """Seal and apply what is committed now; `False` if `within_s` wasn't enough and the rest comes later.

        On PostgreSQL an event whose transaction is younger than one that still runs isn't sealed by this.
        """
        clock = asyncio.get_running_loop()
        deadline = None if within_s is None else clock.time() + within_s
        async with self._one_at_a_time:
            while await self._step():
                if deadline is not None and clock.time() >= deadline:
                    return False
        return True

    async def _look(self) -> bool:
        """One look in the background; whether there was something to do."""
        try:
            if not await self._leads():
                return False
            async with self._one_at_a_time:
                moved = await self._step()
        except StoreUnavailableError as error:
            self._complain(logging.WARNING, error)
            return False
        except AbeyanceError as error:
            self._complain(logging.ERROR, error)
            self._leads_until = float("-inf")
            self._asks_again_at = asyncio.get_running_loop().time() + self._lease_s
            with contextlib.suppress(AbeyanceError):
                await self._store.resign(self._holder)
            return False
        self._quiet = False
        return moved

    def _complain(self, level: int, error: AbeyanceError) -> None:
        """Once for each time that it stands still, not once a second."""
        if not self._quiet:
            _log.log(level, "the read models stand still: %s", error)
        self._quiet = True

    async def _leads(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._leads_until:
            return True
        if now < self._asks_again_at:
            return False
        if not await self._store.lead(self._holder, self._lease_s):
            self._asks_again_at = now + self._lease_s / 5
            return False
        self._leads_until = now + self._lease_s / 2
        return True

    async def _rest(self, pause: float) -> None:
        """Wait `pause` seconds, or `busy_s` after somebody says that there is something."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._woken.wait()
            await asyncio.sleep(self._busy_s)
        self._woken.clear()

    async def _step(self) -> bool:
        """Seal one batch, and apply one to each model that is behind; whether there may be more."""
        sealed = await self._journal.seal(self._batch)
        moved = [await self._apply(model, sealed) for model in self._models]
        return any(moved)

    async def _apply(self, model: ReadModel, size: int) -> bool:
        place = self._places.get(model.name)
        if place is None:
            place = await self._store.place(model.name)
        if place.position >= size:
            self._places[model.name] = place
            return False
        self._places.pop(model.name, None)  # until it is known what became of the next batch
        upto = min(place.position + self._batch, size)
        batch = await self._journal.read_sealed(place.position, upto - place.position)
        if await model.apply(place, upto, batch):
            self._places[model.name] = place._replace(position=upto)
        return True
