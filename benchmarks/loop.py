"""A small loop over generators: what the driver's clients run on.

A client is a generator. It yields `Mail(kind, name)` to be resumed with what came under that name, or a
number of seconds to be resumed after them. Mail that came before somebody waits for it is kept. No
threads, no futures: a client costs the machine a few microseconds a step.
"""

import heapq
import select
import time
from collections.abc import Callable, Generator
from itertools import count
from typing import Any, NamedTuple, TypeVar

from benchmarks.errors import BenchmarkError

Result = TypeVar("Result")
SILENCE_S = 60.0


class Mail(NamedTuple):
    """What a client waits for."""

    kind: str
    name: str | int


Client = Generator["Mail | float", Any, Result]


class Loop:
    """Runs clients until all have ended."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._kept: dict[Mail, Any] = {}
        self._waiting: dict[Mail, Client[Any]] = {}
        self._later: list[tuple[float, int, Client[Any]]] = []
        self._numbers = count()
        self._running = 0

    def read(self, descriptor: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever there is something to read."""
        self._readers[descriptor] = reader
        self._poll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Read it no more; before it is closed."""
        if self._readers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def deliver(self, mail: Mail, value: Any) -> None:
        """Resume who waits for this, or keep it."""
        client = self._waiting.pop(mail, None)
        if client is None:
            self._kept[mail] = value
        else:
            self._resume(client, value)

    def kept(self, kind: str) -> dict[str | int, Any]:
        """What came under this kind and nobody waited for, by name."""
        return {mail.name: value for mail, value in self._kept.items() if mail.kind == kind}

    def drop(self, kind: str) -> None:
        """Throw away what was kept under this kind."""
        self._kept = {mail: value for mail, value in self._kept.items() if mail.kind != kind}

    def run(self, *clients: Client[Any]) -> None:
        """Run these to their ends. Raises `BenchmarkError` if nothing comes for a minute."""
        self._running = len(clients)
        for client in clients:
            self._resume(client, None)
        while self._running:
            self._turn()

    def _turn(self) -> None:
        wait = self._later[0][0] - time.monotonic() if self._later else SILENCE_S
        ready = self._poll.poll(max(0.0, wait))
        for descriptor, _ in ready:
            reader = self._readers.get(descriptor)
            if reader is not None:
                reader()
        if not ready and not self._later:
            waits = ", ".join(f"{mail.kind} of {mail.name}" for mail in list(self._waiting)[:3])
            raise BenchmarkError(f"nothing came for {SILENCE_S:.0f} s; clients wait for: {waits}")
        while self._later and self._later[0][0] <= time.monotonic():
            self._resume(heapq.heappop(self._later)[2], None)

    def _resume(self, client: Client[Any], value: Any) -> None:
        while True:
            try:
                wanted = client.send(value)
            except StopIteration:
                self._running -= 1
                return
            if not isinstance(wanted, Mail):
                heapq.heappush(self._later, (time.monotonic() + wanted, next(self._numbers), client))
                return
            if wanted not in self._kept:
                self._waiting[wanted] = client
                return
            value = self._kept.pop(wanted)
