"""Keeping the log: one process at a time takes in what was sealed and signs it, at least every second.

The compare-and-swap in the store decides, so a second keeper costs work and nothing else. A store that is
gone stops it until it is back; tiles or events that don't agree with what was signed stop it for good, with
an alarm, and nothing is signed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from abeyance.audit.log import Log
from abeyance.errors import AbeyanceError, StoreUnavailableError

_log = logging.getLogger("abeyance.log")

EVERY_S = 1.0


class LogKeeper:
    """Runs the steps of a log. `leads` says whether this process is the one that does it; `catch_up` seals
    what was committed.
    """

    def __init__(
        self,
        log: Log,
        leads: Callable[[], bool],
        catch_up: Callable[[], Awaitable[object]],
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._kept = log
        self._leads = leads
        self._catch_up = catch_up
        self._every_s = every_s
        self.problem: str | None = None

    async def run(self) -> None:
        """Keep the log until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            if self.problem is None and self._leads():
                await self._advance()

    async def finish(self) -> None:
        """Sign what was committed up to now, as a process does before it ends."""
        if self.problem is None:
            await self._advance(self._catch_up)

    async def _advance(self, first: Callable[[], Awaitable[object]] | None = None) -> None:
        try:
            if first is not None:
                await first()
            while await self._kept.step():
                pass
        except StoreUnavailableError as error:
            _log.warning("no checkpoint was signed: %s", error)
        except AbeyanceError as error:
            self._give_up(f"error[{error.code}]: {error}")
        except Exception as error:  # whatever it is, nobody waits for this task to be told
            self._give_up(f"{type(error).__name__} where a checkpoint was to be signed")

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        _log.critical("%s; no checkpoint is signed from here on", problem)
