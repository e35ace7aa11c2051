"""Who writes to a run that isn't at hand in this process: one after the other.

Two writers that read the same version of a run race for its next one, and the loser reads and decides again.
Within a process they need not race at all. Across processes they still may: a run has as many answers as
it has open waits, each is taken once, and whoever loses lost to somebody who won, so the race ends.
"""

import asyncio
from uuid import UUID
from weakref import WeakValueDictionary


class RunTurns:
    """One turn a run. A run's entry goes with whoever is last in its queue."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    def of(self, run_id: UUID) -> asyncio.Lock:
        """Held while one writer reads, decides and appends; the others wait in order."""
        lock = self._turns.get(run_id)
        if lock is None:
            lock = self._turns[run_id] = asyncio.Lock()
        return lock
