"""Attempts at links on PostgreSQL: see `abeyance.journal.attempts`. Each write is one statement, and its
commit doesn't wait for the disk.
"""

from collections.abc import Sequence
from uuid import UUID

from abeyance.journal.attempts import NEWEST, Attempt, StoredAttempts
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement, value_of

_ADD = value_of(
    "link_attempts_add",
    "uuid[]", "uuid[]", "bigint[]", "bigint[]", "text[]", "bigint[]", "bytea[]", "bigint",
)  # fmt: skip
_COUNTS = statement(
    "SELECT verdict, times FROM link_counts WHERE run_id = $1 AND call_key = $2 AND ordinal = $3",
    "uuid", "uuid", "bigint",
)  # fmt: skip
_NEWEST = statement(
    "SELECT at, verdict, size, client FROM link_attempts WHERE run_id = $1 AND call_key = $2 AND ordinal = $3"
    " ORDER BY number DESC",
    "uuid", "uuid", "bigint",
)  # fmt: skip
_ERASE = value_of("link_attempts_erase", "uuid[]")


class PostgresAttempts:
    """See `AttemptStore`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def add(self, attempts: Sequence[Attempt]) -> None:
        """See `AttemptStore.add`."""
        if attempts:
            columns = ([attempt[column] for attempt in attempts] for column in range(7))
            await self._store.fetch(_ADD, *columns, NEWEST)

    async def find(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredAttempts:
        """See `AttemptStore.find`."""
        key = (run_id, call_key, ordinal)
        counts = await self._store.fetch(_COUNTS, *key)
        newest = await self._store.fetch(_NEWEST, *key)
        return StoredAttempts(dict(counts), [Attempt(*key, *row) for row in newest])

    async def erase(self, run_ids: Sequence[UUID]) -> None:
        """See `AttemptStore.erase`."""
        await self._store.fetch(_ERASE, list(run_ids))
