"""Attempts to answer at links: the port to rows beside the journal, which may be lost.

They are scratch: written behind the reply, for an operator who wants to know whether and how a link was used.
No row holds a link, a body or an address; `client` is a keyed hash under a secret of the deployment. A run's
rows go with the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

NEWEST = 50
"""How many attempts are kept of a wait, beside the counts of all."""


class Attempt(NamedTuple):
    """One request with a link of the wait token that `call_key` and `ordinal` name.

    `at` is in microseconds, `verdict` is `accepted`, `acceptable` or the code of the refusal, `size` the
    body's bucket (`size_bucket`) or `None` if its size wasn't known.
    """

    run_id: UUID
    call_key: UUID
    ordinal: int
    at: int
    verdict: str
    size: int | None
    client: bytes


@dataclass(frozen=True, slots=True)
class StoredAttempts:
    """What is kept of one wait: how often there was each verdict, and the newest attempts, newest first."""

    counts: Mapping[str, int] = field(default_factory=dict)
    newest: Sequence[Attempt] = ()


def size_bucket(size: int) -> int:
    """The smallest of 0, 256 bytes, 1 KiB, 4 KiB, … that is no less than `size` bytes."""
    bucket = 256 if size > 0 else 0
    while bucket < size:
        bucket *= 4
    return bucket


class AttemptStore(Protocol):
    """The rows of one journal. All methods raise `StoreUnavailableError`."""

    async def add(self, attempts: Sequence[Attempt]) -> None:
        """Count these, in order, and keep the newest of each wait. Those of runs that aren't there, or were
        erased, are dropped.
        """

    async def find(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredAttempts:
        """What is kept of one wait."""

    async def erase(self, run_ids: Sequence[UUID]) -> None:
        """Drop everything of these runs."""
