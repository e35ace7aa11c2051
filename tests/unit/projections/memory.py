"""A sealed index and a read model in memory: what the follower's own rules are tested on."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from abeyance.journal.store import Control, EventRow, LinkRow, SealedEvent, WaitRow
from abeyance.projections.read_models import Place, RunsChanges
from abeyance.projections.waits_list import WaitChange
from tests.unit.projections.histories import Written

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

    async def apply_waits(self, place: Place, position: int, changes: Sequence[WaitChange]) -> bool:
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


class MemorySnapshot:
    """A snapshot of runs as their authors wrote them, of which nothing is sealed or followed."""

    def __init__(self, runs: Sequence[Written]) -> None:
        self.runs = {written.events[0].run_id: written for written in runs}

    async def streams(self, after: UUID | None, limit: int) -> list[UUID]:
        return [run for run in sorted(self.runs) if after is None or run > after][:limit]

    async def events(self, stream: UUID, *, after: int, limit: int) -> list[EventRow]:
        return [row for row in self.runs[stream].events if row.version > after][:limit]

    async def controls(self, run_ids: Sequence[UUID]) -> list[Control]:
        found = [self.runs[run_id].control for run_id in run_ids]
        return [control for control in found if control is not None]

    async def waits(self, run_ids: Sequence[UUID]) -> list[WaitRow]:
        return [wait for run_id in run_ids for wait in self.runs[run_id].waits.values()]

    async def links(self, digests: Sequence[bytes]) -> list[LinkRow]:
        return [link for link in self._links() if link.digest in digests]

    async def links_after(self, digest: bytes, limit: int) -> list[LinkRow]:
        return sorted(link for link in self._links() if link.digest > digest)[:limit]

    async def count_links(self) -> int:
        return len(self._links())

    async def sealed_size(self) -> int:
        return 0

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        return []

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        return {}

    async def select(self, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return []

    def _links(self) -> list[LinkRow]:
        return [link for written in self.runs.values() for link in written.links.values()]
