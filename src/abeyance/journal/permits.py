"""Permits: how many requests of one client may pass in a minute, over all processes.

A window is the list of one key's charges of the last minute. A process draws: the permits that it uses at
once are charged at the moment of drawing; a few more, a block, may be used until the block ends, so they
are charged at its end, and where they were really used once the process says so (it draws again, or gives
back the rest). A charge counts for one minute. So, in the store's time:

* at every moment, what was let through in the last minute and what may still be let through from open blocks
  is at most the limit: no window of a minute ever holds more;
* who waits for `wait_us` and meanwhile sends nothing gets in: charges only move to earlier moments;
* a process that dies keeps at most its open blocks from the others, for at most `LONG_US` and a minute.

A refused draw changes nothing. These are the rules as pure functions of a window and a moment; PostgreSQL has
the same in `functions.sql`, and one test holds both against each other. They are scratch: nothing in the
journal depends on them.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

# All times are microseconds.
WINDOW_US: Final = 60_000_000
# A window of more charges than this keeps those of a slot as one, at the last one's moment. With a limit up
# to this no window has more.
MOST_CHARGES: Final = 600
SLOT_US: Final = 250_000
# How long a block may be used: while less than half of the limit is charged, and after that.
LONG_US: Final = 10_000_000
SHORT_US: Final = 1_000_000
# A block is at most this part of what is left, so that hardly anything lies unused when the limit is near.
SHARE: Final = 8


class Charge(NamedTuple):
    """`permits` were used at `at` at the latest; of an open block if `block` names one."""

    at: int
    permits: int
    block: UUID | None = None


Window: TypeAlias = tuple[Charge, ...]


class Settled(NamedTuple):
    """Of the block `block` of `key`, `used` permits were used, the last `age_us` ago; the rest is free."""

    key: bytes
    block: UUID
    used: int
    age_us: int


class Draw(NamedTuple):
    """`need` permits of `key` to use at once, and up to `extra` more as the block `block`; at most `limit` a
    minute. `settled` is the last block, which this one takes the place of.
    """

    key: bytes
    need: int
    extra: int
    limit: int
    block: UUID
    settled: Settled | None = None


class Drawn(NamedTuple):
    """`granted` of the needed permits, and `extra` more that may be used for `valid_us`. `wait_us`: when the
    next one is free, if not all that were needed were granted.
    """

    granted: int
    extra: int
    valid_us: int
    wait_us: int


class PermitStore(Protocol):
    """Where all processes of a deployment count."""

    async def draw(self, draw: Draw) -> Drawn:
        """Draw permits; write nothing if none is left. Raises `StoreUnavailableError`."""

    async def settle(self, blocks: Sequence[Settled]) -> None:
        """Give back what was unused of these blocks."""

    async def forget(self) -> None:
        """Drop the windows in which nothing is charged any more."""

    async def close(self) -> None:
        """Let go of connections."""


def charged(window: Window, now: int) -> Window:
    """The charges that count at `now`. A charge can't be later than the end of a block drawn now: if it is,
    the clock has been set back.
    """
    return tuple(
        charge._replace(at=min(charge.at, now + LONG_US)) for charge in window if charge.at + WINDOW_US > now
    )


def settle(window: Window, settled: Settled | None, now: int) -> Window:
    """The window once this block is closed. A block that it doesn't have is left alone."""
    if settled is None or not _holds(window, settled):
        return window
    kept = tuple(charge for charge in window if charge.block != settled.block)
    return (*kept, Charge(now - settled.age_us, settled.used)) if settled.used else kept


def _holds(window: Window, settled: Settled) -> bool:
    return any(charge.block == settled.block for charge in window)


def draw(window: Window, asked: Draw, now: int) -> tuple[Window, Drawn]:
    """The window after the draw, and what was drawn."""
    window = merge(settle(charged(window, now), asked.settled, now))
    left = asked.limit - total(window)
    granted = max(0, min(asked.need, left))
    left -= granted
    extra = max(0, min(asked.extra, left // SHARE))
    valid = LONG_US if 2 * (asked.limit - left) <= asked.limit else SHORT_US
    if granted:
        window = (*window, Charge(now, granted))
    if extra:
        window = (*window, Charge(now + valid, extra, asked.block))
    wait = wait_us(window, asked.limit, now) if granted < asked.need else 0
    return window, Drawn(granted, extra, valid if extra else 0, wait)


def total(window: Window) -> int:
    """How many permits are charged."""
    return sum(charge.permits for charge in window)


def wait_us(window: Window, limit: int, now: int) -> int:
    """How long until one permit is free, if nobody draws meanwhile. Charges may still become one with a later
    one of their slot.
    """
    excess = total(window) - limit + 1
    ordered = sorted(window, key=lambda charge: charge.at)
    freed = accumulate(charge.permits for charge in ordered)
    at = next(charge.at for charge, count in zip(ordered, freed, strict=True) if count >= excess)
    return (at if limit <= MOST_CHARGES else (at // SLOT_US + 1) * SLOT_US) + WINDOW_US - now


def merge(window: Window) -> Window:
    """The window in as few charges as it takes: bounded, whatever was drawn."""
    width = SLOT_US if len(window) > MOST_CHARGES else 1
    merged: list[Charge] = []
    for block, charges in groupby(sorted(window, key=_by_block), key=lambda charge: charge.block):
        for _, near in groupby(charges, key=lambda charge: charge.at // width):
            same = tuple(near)
            merged.append(Charge(same[-1].at, total(same), block))
    return tuple(merged)


def _by_block(charge: Charge) -> tuple[int, int]:
    return (charge.block.int if charge.block else -1, charge.at)


class MemoryPermits:
    """Windows in this process's memory: for a store that has one process, and while another can't be reached.

    `clock_us` never goes backwards. At most `most_keys` windows are kept; the one drawn from longest ago goes
    first. Whoever wants to be forgotten early needs that many other addresses within a minute.
    """

    def __init__(self, clock_us: Callable[[], int], most_keys: int = 65_536) -> None:
        self._clock_us = clock_us
        self._most_keys = most_keys
        self._windows: OrderedDict[bytes, Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    async def draw(self, asked: Draw) -> Drawn:
        """See `PermitStore.draw`."""
        before = self._windows.get(asked.key, ())
        after, drawn = draw(before, asked, self._clock_us())
        if drawn.granted or (asked.settled is not None and _holds(before, asked.settled)):
            self._windows[asked.key] = merge(after)
            self._windows.move_to_end(asked.key)
            if len(self._windows) > self._most_keys:
                self._windows.popitem(last=False)
        return drawn

    async def settle(self, blocks: Sequence[Settled]) -> None:
        """See `PermitStore.settle`."""
        now = self._clock_us()
        for block in blocks:
            window = self._windows.get(block.key, ())
            if _holds(window, block):
                self._windows[block.key] = merge(settle(charged(window, now), block, now))

    async def forget(self) -> None:
        """See `PermitStore.forget`."""
        now = self._clock_us()
        while self._windows:
            key, window = next(iter(self._windows.items()))
            if charged(window, now):
                break
            del self._windows[key]

    async def close(self) -> None:
        """See `PermitStore.close`."""
