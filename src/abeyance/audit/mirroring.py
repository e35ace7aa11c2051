"""Mirroring: the process that keeps the log brings its mirror up to date, beside everything else.

A disk that is full or gone delays the mirror and nothing more: one warning, and it is tried again. A folder
and a store that contradict each other stop it for good, with an alarm.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from abeyance.audit.mirror import Mirror, never
from abeyance.errors import AbeyanceError, StoreUnavailableError

_log = logging.getLogger("abeyance.mirror")

EVERY_S = 1.0
AT_THE_END = 4_096
"""How many records are still written when the process ends. The next one writes the rest."""


class MirrorKeeper:
    """Runs a mirror. `leads` says whether this process is the one that does it."""

    def __init__(self, mirror: Mirror, leads: Callable[[], bool], *, every_s: float = EVERY_S) -> None:
        self._mirror = mirror
        self._leads = leads
        self._every_s = every_s
        self._ended = asyncio.Event()
        self._waiting = False
        self.problem: str | None = None

    async def run(self) -> None:
        """Mirror until `end`. Never cancelled: the lock must not go while a thread still writes."""
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._every_s)
            if not self._ended.is_set() and self.problem is None and self._leads():
                await self.advance(stop=self._ended.is_set)

    def end(self) -> None:
        """Let `run` return after the tile that is being written."""
        self._ended.set()

    async def advance(self, *, most: int | None = None, stop: Callable[[], bool] = never) -> None:
        """Bring the mirror up to date, or log why that can't be done."""
        if self.problem is not None:
            return
        try:
            await self._mirror.advance(most=most, stop=stop)
        except (OSError, StoreUnavailableError) as error:
            self._complain(error)
        except AbeyanceError as error:
            self.problem = str(error)
            _log.critical("error[%s]: %s; nothing is mirrored from here on", error.code, error)
        else:
            if self._waiting:
                _log.info("the mirror is written again")
            self._waiting = False

    def _complain(self, error: Exception) -> None:
        """Once each time that it stands still, not once a second."""
        if not self._waiting:
            said = error.strerror if isinstance(error, OSError) else error
            _log.warning("the mirror can't be written and is tried again: %s", said)
        self._waiting = True
