"""What a run's actor and its process know of each other."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from abeyance.engine.effects import Workshop
from abeyance.engine.turn import Session, Turn
from abeyance.journal.batch import Lease
from abeyance.journal.store import Append

if TYPE_CHECKING:
    from abeyance.engine.actor import Actor

Decide = Callable[[Turn], None]
Barrier = Callable[[str, UUID], Awaitable[None]]
"""Called at named places where a test may stop this process: `append:<topics>` before a batch is written,
`stored:<topics>` after it, `call-recorded` before a handler runs, `effect-done` after it.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """Something that happened, to be decided on. `reply` is resolved once it is on disk, or was refused."""

    decide: Decide
    reply: "asyncio.Future[None] | None" = None


class Host(Protocol):
    """What an actor needs of its process."""

    workshop: Workshop
    testing_only_barrier: Barrier | None

    @property
    def draining(self) -> bool:
        """Whether this process stops: nothing new begins here."""

    async def append(self, append: Append) -> bool:
        """Write; whether it won."""

    async def load(self, run_id: UUID) -> Session | None:
        """Read the run again; `None` if it has ended, can't be gone on with here, or isn't there."""

    def new_lease(self) -> Lease:
        """A lease for this process, from now."""

    def rested(self, actor: "Actor") -> None:
        """The run waits, has ended or was lost: nothing is under way here."""

    def holds(self, actor: "Actor", before: Lease | None, now: Lease | None) -> None:
        """The lease that the run is held under here is another one, or none."""

    def know_link(self, digest: bytes, run_id: UUID, wait_id: str) -> None:
        """Remember which wait a new link answers."""

    async def let_go(self, actor: "Actor") -> None:
        """Give the lease back without an event."""
