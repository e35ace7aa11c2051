"""The outside world's clock, ids and randomness, as ports.

Nothing in abeyance reads a clock or a random source by itself: a `World` is passed in. Tests pass one
whose time is set by hand; `bootstrap` passes the real one (on PostgreSQL its clock follows the
database's, docs/adr/0004).
"""

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class World(Protocol):
    """The clock and the source of randomness of one deployment."""

    def now(self) -> datetime:
        """The deployment's time: aware, UTC, microseconds. May step; only stored deadlines use it."""

    def monotonic(self) -> float:
        """Seconds since some moment, never going backwards. For durations inside one process."""

    def random_bytes(self, count: int) -> bytes:
        """`count` bytes from a cryptographic source."""


class SystemWorld:
    """The machine's clock and the operating system's randomness.

    `correct` moves `now` to the time source of a deployment, as measured at connect and every 30 s.
    """

    def __init__(self) -> None:
        self._offset = timedelta(0)

    def correct(self, by: timedelta) -> None:
        """The deployment's time source is `by` ahead of what `now` says."""
        self._offset += by

    def now(self) -> datetime:
        """See `World.now`."""
        return datetime.now(UTC) + self._offset

    def monotonic(self) -> float:
        """See `World.monotonic`."""
        return time.monotonic()

    def random_bytes(self, count: int) -> bytes:
        """See `World.random_bytes`."""
        return os.urandom(count)


def to_micros(moment: datetime) -> int:
    """Microseconds since the epoch, the form in which rows hold times."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The moment that `to_micros` wrote."""
    return EPOCH + timedelta(microseconds=micros)


def uuid7(world: World) -> UUID:
    """A new UUIDv7 (RFC 9562, section 5.7): 48 bits of milliseconds, then 74 random bits."""
    millis = to_micros(world.now()) // 1000
    random = int.from_bytes(world.random_bytes(10))
    value = (millis & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64
    return UUID(int=value | 0b10 << 62 | random & (1 << 62) - 1)
