"""Following read models, and the port of the tables that they live in.

A following read model is a table that is a function of the sealed index up to a position. Rows and position
are written in one transaction, so every event counts exactly once, whoever applies it and however often a
process dies in between; several processes may try, the comparison of the position lets one win.

A model may have several *generations* side by side: one is live and read, another may be built beside it and
take its place in one transaction. Positions are sealed indexes: the next one to apply.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from abeyance.journal.store import SealedEvent

if TYPE_CHECKING:
    from abeyance.projections.waits_list import WaitChange


class Place(NamedTuple):
    """How far a generation of a read model is. `live`: it is the one that is read."""

    generation: int
    position: int
    live: bool = True


class NewRun(NamedTuple):
    """A row of the list of runs. `created` is in microseconds, `version` that of the newest applied event."""

    run_id: UUID
    created: int
    version: int
    status: str
    definition: str
    labels: Mapping[str, str]


class ChangedRun(NamedTuple):
    """What later events make of a row of the list of runs. Without a `status` it stays as it was."""

    run_id: UUID
    version: int
    status: str | None


class RunsChanges(NamedTuple):
    """What a batch of events does to the list of runs."""

    new: Sequence[NewRun]
    changed: Sequence[ChangedRun]


class ReadModelStore(Protocol):
    """The tables of the following read models, beside the journal in one database.

    All methods raise `StoreUnavailableError` when the store can't be used; then nothing was written.
    """

    async def place(self, model: str) -> Place:
        """Where the live generation is; it is made, empty, when the model is first asked for."""

    async def begin(self, model: str) -> Place:
        """A new, empty generation beside the live one, newer than all others."""

    async def swap(self, model: str, generation: int) -> bool:
        """Make a generation the live one, unless it is behind the one that is live, or is gone."""

    async def clear(self, model: str, generation: int) -> None:
        """Drop everything of older generations than this one, in short transactions."""

    async def apply_runs(self, place: Place, position: int, changes: RunsChanges) -> bool:
        """Write changes of the list of runs and move `place` to `position`.

        `False`, and nothing is written, unless the generation is where `place` says and as live as it says.
        """

    async def apply_waits(self, place: Place, position: int, changes: "Sequence[WaitChange]") -> bool:
        """As `apply_runs`, for the list of waits; the changes are made one after the other."""

    async def select(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Rows of one statement; `$1` stands for the first value. Ids come back as `UUID` or as 16 bytes."""

    async def lead(self, holder: UUID, seconds: float) -> bool:
        """Take or prolong the lease on following in the background; `False` if somebody else has it."""

    async def resign(self, holder: UUID) -> None:
        """Give that lease back."""


class ReadModel(Protocol):
    """One following read model."""

    @property
    def name(self) -> str:
        """The name that `projections rebuild` knows it by."""

    async def apply(self, place: Place, position: int, batch: Sequence[SealedEvent]) -> bool:
        """Apply the sealed events from `place.position` up to before `position`; `False` if it was moved by
        somebody else meanwhile.

        Raises `UnknownEventError` at an event of a newer release, before anything is written.
        """


def to_uuid(value: object) -> UUID:
    """An id as a store returns it."""
    return value if isinstance(value, UUID) else UUID(bytes=value)  # type: ignore[arg-type] # bytes
