"""Idempotency keys: the port to the rows that say which keys were used, and what was answered.

A key is used once its row is there, until the row expires. Where the effect is a run's append, the row goes
in with it (`Append.reply`), so no crash comes between them. Any other effect has its row reserved before it,
and freed if it was refused. What was answered is added to the row afterwards, sealed; an empty text says that
it isn't kept.
"""

from typing import NamedTuple, Protocol
from uuid import UUID

from abeyance.journal.store import ReplyRow

NOT_KEPT = b""


class StoredReply(NamedTuple):
    """A used key. `run_id` is the run that came of it, `key_id` that run's key; `reply` is what was answered,
    sealed, `NOT_KEPT`, or `None` while nothing was.
    """

    request: bytes
    created: int
    run_id: UUID | None
    key_id: int | None
    reply: bytes | None


class ReplyStore(Protocol):
    """The rows of one journal. All methods raise `StoreUnavailableError`."""

    async def find(self, scope: bytes, now: int) -> StoredReply | None:
        """The row of a key, unless it has expired."""

    async def reserve(self, row: ReplyRow) -> bool:
        """Put the row of a key that isn't used, without a run; whether this did."""

    async def keep(self, row: ReplyRow, run_id: UUID | None, reply: bytes) -> bool:
        """Add what was answered to this very row if it has none; put the row if the key isn't used. Whether
        this did.
        """

    async def free(self, row: ReplyRow) -> None:
        """Take this very row away, if nothing came of it."""

    async def key_of(self, run_id: UUID) -> int | None:
        """The id of a run's key."""

    async def remove_expired(self, now: int, limit: int) -> int:
        """Take up to `limit` rows away that have expired; how many."""
