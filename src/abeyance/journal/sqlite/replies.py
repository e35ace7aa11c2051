"""Idempotency keys on SQLite: see `abeyance.journal.replies`."""

import sqlite3
from uuid import UUID

from abeyance.journal.replies import StoredReply
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import ReplyRow

_FIND = """
SELECT r.request, r.created, r.run_id, c.key_id, r.reply
FROM replies AS r LEFT JOIN run_control AS c ON c.run_id = r.run_id
WHERE r.scope = ? AND r.expires > ?
"""
_PUT = """
INSERT INTO replies (scope, request, created, expires, run_id, reply) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE
SET request = excluded.request, created = excluded.created, expires = excluded.expires,
    run_id = excluded.run_id, reply = excluded.reply
WHERE replies.expires <= excluded.created
"""
_ANSWER = "UPDATE replies SET reply = ? WHERE scope = ? AND request = ? AND created = ? AND reply IS NULL"
_FREE = """
DELETE FROM replies
WHERE scope = ? AND request = ? AND created = ? AND run_id IS NULL AND reply IS NULL
"""
_REMOVE = """
DELETE FROM replies
WHERE scope IN (SELECT scope FROM replies WHERE expires <= ? ORDER BY expires LIMIT ?)
"""


class SQLiteReplies:
    """See `ReplyStore`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def find(self, scope: bytes, now: int) -> StoredReply | None:
        """See `ReplyStore.find`."""
        row = self._store.read(lambda reader: reader.execute(_FIND, (scope, now)).fetchone())
        if row is None:
            return None
        request, created, run_id, key_id, reply = row
        return StoredReply(request, created, None if run_id is None else UUID(bytes=run_id), key_id, reply)

    async def reserve(self, row: ReplyRow) -> bool:
        """See `ReplyStore.reserve`."""
        return await self._store.write(lambda cursor: _put(cursor, row, None, None))

    async def keep(self, row: ReplyRow, run_id: UUID | None, reply: bytes) -> bool:
        """See `ReplyStore.keep`."""

        def work(cursor: sqlite3.Cursor) -> bool:
            values = (reply, row.scope, row.request, row.created)
            return cursor.execute(_ANSWER, values).rowcount == 1 or _put(cursor, row, run_id, reply)

        return await self._store.write(work)

    async def free(self, row: ReplyRow) -> None:
        """See `ReplyStore.free`."""
        values = (row.scope, row.request, row.created)
        await self._store.write(lambda cursor: cursor.execute(_FREE, values).rowcount)

    async def key_of(self, run_id: UUID) -> int | None:
        """See `ReplyStore.key_of`."""
        query = "SELECT key_id FROM run_control WHERE run_id = ?"
        row = self._store.read(lambda reader: reader.execute(query, (run_id.bytes,)).fetchone())
        return None if row is None else int(row[0])

    async def remove_expired(self, now: int, limit: int) -> int:
        """See `ReplyStore.remove_expired`. When nothing has expired, nothing is written."""
        query = "SELECT 1 FROM replies WHERE expires <= ? LIMIT 1"
        if self._store.read(lambda reader: reader.execute(query, (now,)).fetchone()) is None:
            return 0
        return await self._store.write(lambda cursor: cursor.execute(_REMOVE, (now, limit)).rowcount)


def _put(cursor: sqlite3.Cursor, row: ReplyRow, run_id: UUID | None, reply: bytes | None) -> bool:
    values = (*row, None if run_id is None else run_id.bytes, reply)
    return cursor.execute(_PUT, values).rowcount == 1
