"""How a run ends: held answers are dropped in the ending batch, each with its record, before the end.

What is here needs no program: a run is cancelled, or runs out of its time, whether or not its code is loaded.
"""

from collections.abc import Iterable
from typing import Protocol

from abeyance.journal import canonical
from abeyance.journal import events as e
from abeyance.journal.envelope import Recorded
from abeyance.journal.run import RunState
from abeyance.journal.vault import Content

EXPIRED = "run-expired"
EXPIRED_TEXT = "the run's time to live passed before it ended"


class Journal(Protocol):
    """What events are added to: a turn, or a bare batch."""

    @property
    def state(self) -> RunState:
        """The run after what was added so far."""

    def commit(self, canonical: bytes) -> Content:
        """Commit to a content of this run."""

    def add(self, event: e.Event, content: Content | None = None) -> Recorded:
        """Add an event."""


def discard_held(journal: Journal, keys: Iterable[str], reason: str) -> None:
    """Drop the answers that these waits hold, each with its record."""
    for key in sorted(keys):
        wait = journal.state.waits.get(key)
        if wait is not None and wait.held is not None:
            journal.add(
                e.WaitTokenDiscarded.model_validate({"answer": wait.held, "reason": reason, "wait": key})
            )


def fail_run(journal: Journal, code: str, message: str, *, node: str | None = None) -> None:
    """End the run as failed, with a stable code and a message that may hold a user's words."""
    discard_held(journal, journal.state.waits, "run-ended")
    detail = journal.commit(canonical.encode(message))
    journal.add(e.Failed(code=code, detail=detail.ref, node=node), detail)


def cancel_run(journal: Journal, actor: str | None) -> None:
    """End the run as cancelled."""
    discard_held(journal, journal.state.waits, "run-cancelled")
    journal.add(e.Cancelled(actor=actor))
