"""A sealed index and a read model in memory: what the follower's own rules are tested on."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from abeyance.journal.store import EventRow, SealedEvent
from abeyance.projections.read_models import Place, RunsChanges

RUN = UUID(int=7)


class MemoryJournal:
    """Events that are sealed a batch at a time. `fail` is raised by the next call, once each."""

    def __init__(self) -> None:
        self.committed = 0
        self.sealed = 0
        self.fail: list[Exception] = []
        self.looks = 0

    async def seal(self, limit: int) -> int:
        self.looks += 1
        if self.fail:
            raise self.fail.pop(0)
        self.sealed = min(self.sealed + limit, self.committed)
        return self.sealed

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        stop = min(start + limit, self.sealed)
        return [SealedEvent(index, EventRow(RUN, index + 1, "x", b"")) for index in range(start, stop)]


class MemoryReadModels:
    """Places of models. `leader` is who has the lease."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.leader: UUID | None = None

    async def place(self, model: str) -> Place:
        return self.places.setdefault(model, Place(1, 0))

    async def lead(self, holder: UUID, seconds: float) -> bool:
        self.leader = self.leader or holder
        return self.leader == holder

    async def resign(self, holder: UUID) -> None:
        if self.leader == holder:
            self.leader = None

    async def begin(self, model: str) -> Place:
        raise NotImplementedError

    async def swap(self, model: str, generation: int) -> bool:
        raise NotImplementedError

    async def clear(self, model: str, generation: int) -> None:
        raise NotImplementedError

    async def apply_runs(self, place: Place, position: int, changes: RunsChanges) -> bool:
        raise NotImplementedError

    async def select(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        raise NotImplementedError


class MemoryModel:
    """A model that keeps the versions it was given; `before` runs before each batch is written."""

    name = "memory"

    def __init__(self, store: MemoryReadModels, before: Callable[[], None] = lambda: None) -> None:
        self.store = store
        self.before = before
        self.versions: list[int] = []

    async def apply(self, place: Place, position: int, batch: Sequence[SealedEvent]) -> bool:
        self.before()
        if self.store.places[self.name] != place:
            return False
        self.versions += [sealed.event.version for sealed in batch]
        self.store.places[self.name] = place._replace(position=position)
        return True
