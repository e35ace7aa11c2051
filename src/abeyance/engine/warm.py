"""Suspended runs that stay in memory for a while, so that a quick answer needs no reload."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID


class Warm(NamedTuple):
    """Since when a run waits in memory (monotonic seconds), and about how much it holds there."""

    since: float
    size_bytes: int


class WarmRuns:
    """Which runs are warm, the longest first. Bounded by number, bytes and seconds."""

    def __init__(self, *, most: int, most_bytes: int, seconds: float) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._runs: OrderedDict[UUID, Warm] = OrderedDict()
        self._bytes = 0

    def keep(self, run_id: UUID, now: float, size_bytes: int) -> None:
        """The run waits from `now` on."""
        self.cool_down(run_id)
        self._runs[run_id] = Warm(now, size_bytes)
        self._bytes += size_bytes

    def cool_down(self, run_id: UUID) -> None:
        """The run isn't kept any more."""
        known = self._runs.pop(run_id, None)
        if known is not None:
            self._bytes -= known.size_bytes

    def trim(self, now: float, forget: Callable[[UUID], None]) -> None:
        """Forget the runs that have been warm longest, beyond the limits."""
        while self._runs:
            run_id, oldest = next(iter(self._runs.items()))
            fits = len(self._runs) <= self._most and self._bytes <= self._most_bytes
            if fits and oldest.since > now - self._seconds:
                return
            self.cool_down(run_id)
            forget(run_id)

    def clear(self) -> None:
        """Keep none."""
        self._runs.clear()
        self._bytes = 0
