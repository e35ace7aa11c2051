"""Idempotency keys on PostgreSQL: see `abeyance.journal.replies`. Each method is one statement, or two that
need no transaction around them.
"""

from uuid import UUID

from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement
from abeyance.journal.replies import StoredReply
from abeyance.journal.store import ReplyRow

_FIND = statement(
    """
    SELECT r.request, r.created, r.run_id, c.key_id, r.reply
    FROM replies AS r LEFT JOIN run_control AS c ON c.run_id = r.run_id
    WHERE r.scope = $1 AND r.expires > $2
    """,
    "bytea", "bigint",
)  # fmt: skip
_PUT = statement(
    """
    INSERT INTO replies (scope, request, created, expires, run_id, reply) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (scope) DO UPDATE SET
        request = excluded.request, created = excluded.created, expires = excluded.expires,
        run_id = excluded.run_id, reply = excluded.reply
    WHERE replies.expires <= excluded.created
    RETURNING 1
    """,
    "bytea", "bytea", "bigint", "bigint", "uuid", "bytea",
)  # fmt: skip
_ANSWER = statement(
    """
    UPDATE replies SET reply = $1
    WHERE scope = $2 AND request = $3 AND created = $4 AND reply IS NULL
    RETURNING 1
    """,
    "bytea", "bytea", "bytea", "bigint",
)  # fmt: skip
_FREE = statement(
    """
    DELETE FROM replies
    WHERE scope = $1 AND request = $2 AND created = $3 AND run_id IS NULL AND reply IS NULL
    RETURNING 1
    """,
    "bytea", "bytea", "bigint",
)  # fmt: skip
_KEY_OF = statement("SELECT key_id FROM run_control WHERE run_id = $1", "uuid")
# Several processes remove at once: each takes rows that the others haven't.
_REMOVE = statement(
    """
    DELETE FROM replies
    WHERE scope IN (
        SELECT scope FROM replies WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    RETURNING 1
    """,
    "bigint", "bigint",
)  # fmt: skip


class PostgresReplies:
    """See `ReplyStore`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def find(self, scope: bytes, now: int) -> StoredReply | None:
        """See `ReplyStore.find`."""
        rows = await self._store.fetch(_FIND, scope, now)
        return StoredReply(*rows[0]) if rows else None

    async def reserve(self, row: ReplyRow) -> bool:
        """See `ReplyStore.reserve`."""
        return bool(await self._store.fetch(_PUT, *row, None, None))

    async def keep(self, row: ReplyRow, run_id: UUID | None, reply: bytes) -> bool:
        """See `ReplyStore.keep`."""
        if await self._store.fetch(_ANSWER, reply, row.scope, row.request, row.created):
            return True
        return bool(await self._store.fetch(_PUT, *row, run_id, reply))

    async def free(self, row: ReplyRow) -> None:
        """See `ReplyStore.free`."""
        await self._store.fetch(_FREE, row.scope, row.request, row.created)

    async def key_of(self, run_id: UUID) -> int | None:
        """See `ReplyStore.key_of`."""
        rows = await self._store.fetch(_KEY_OF, run_id)
        return int(rows[0][0]) if rows else None

    async def remove_expired(self, now: int, limit: int) -> int:
        """See `ReplyStore.remove_expired`."""
        return len(await self._store.fetch(_REMOVE, now, limit))
