"""The deployment's clock: that of the database, so that every process judges deadlines by the same one.

It is read at each connect and each 30 s, as of half the round trip; between that the process's monotonic
clock carries it on, so a step of the host's wall clock moves nothing.
"""

from abeyance.world import World

MEASURE_EACH_S = 30.0


class DatabaseClock:
    """The database's time as this process knows it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offset: int | None = None
        self._measured = 0.0

    @property
    def stale(self) -> bool:
        """Whether it should be measured again."""
        return self._offset is None or self._world.monotonic() - self._measured > MEASURE_EACH_S

    def reading(self) -> float:
        """The start of a measurement, for `observe`."""
        return self._world.monotonic()

    def observe(self, asked: float, micros: int) -> None:
        """The database said `micros` to a question that was asked at `asked` (a `reading`)."""
        now = self._world.monotonic()
        self._offset = micros - round((asked + now) / 2 * 1_000_000)
        self._measured = now

    def now(self) -> int:
        """Microseconds since the epoch."""
        if self._offset is None:
            raise RuntimeError("the clock was not measured: connect first")
        return self._offset + round(self._world.monotonic() * 1_000_000)
