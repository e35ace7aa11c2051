"""Barriers: a process of a test stops at a named place until the test lets it go on."""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(slots=True)
class Stop:
    """One stop. `reached` is set when the process stands there."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> "Stop":
        await asyncio.wait_for(self.reached.wait(), 10)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.go.set()


class Places:
    """What a process calls at its named places. `passed` lists them."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._stops: list[tuple[str, str, Stop]] = []

    def stop(self, place: str, topic: str = "") -> Stop:
        """Stop at the next passage of `place`, or of a place that begins so and has `topic` in its name."""
        stop = Stop()
        self._stops.append((place, topic, stop))
        return stop

    async def __call__(self, place: str, run_id: UUID) -> None:
        """Pass, or stand."""
        await self.at(place)

    async def at(self, place: str) -> None:
        """As a call, where no run is named."""
        self.passed.append(place)
        for begin, topic, stop in self._stops:
            here = place == begin if not topic else place.startswith(begin) and topic in place
            if here and not stop.reached.is_set():
                stop.reached.set()
                await stop.go.wait()
                return
