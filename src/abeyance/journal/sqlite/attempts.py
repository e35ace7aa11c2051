"""Attempts at links on SQLite: see `abeyance.journal.attempts`. A batch is one request to the writer's
thread, and shares its commit.
"""

import sqlite3
from collections.abc import Sequence
from uuid import UUID

from abeyance.journal.attempts import NEWEST, Attempt, StoredAttempts
from abeyance.journal.sqlite.store import SQLiteJournalStore

_LIVE = "SELECT 1 FROM run_control WHERE run_id = ? AND key_state = 'live'"
_COUNT = """
INSERT INTO link_counts (run_id, call_key, ordinal, verdict, times) VALUES (?, ?, ?, ?, 1)
ON CONFLICT (run_id, call_key, ordinal, verdict) DO UPDATE SET times = times + 1
"""
_ADD = """
INSERT INTO link_attempts (run_id, call_key, ordinal, number, at, verdict, size, client)
SELECT ?1, ?2, ?3, coalesce(max(number), 0) + 1, ?4, ?5, ?6, ?7
FROM link_attempts WHERE run_id = ?1 AND call_key = ?2 AND ordinal = ?3
"""
_TRIM = f"""
DELETE FROM link_attempts
WHERE run_id = ?1 AND call_key = ?2 AND ordinal = ?3 AND number <= (
    SELECT max(number) - {NEWEST} FROM link_attempts WHERE run_id = ?1 AND call_key = ?2 AND ordinal = ?3
)
"""
_COUNTS = "SELECT verdict, times FROM link_counts WHERE run_id = ? AND call_key = ? AND ordinal = ?"
_NEWEST = """
SELECT at, verdict, size, client FROM link_attempts
WHERE run_id = ? AND call_key = ? AND ordinal = ? ORDER BY number DESC
"""


class SQLiteAttempts:
    """See `AttemptStore`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def add(self, attempts: Sequence[Attempt]) -> None:
        """See `AttemptStore.add`."""
        await self._store.write(lambda cursor: _add(cursor, attempts))

    async def find(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredAttempts:
        """See `AttemptStore.find`."""
        key = (run_id.bytes, call_key.bytes, ordinal)
        counts, newest = self._store.read(
            lambda reader: (reader.execute(_COUNTS, key).fetchall(), reader.execute(_NEWEST, key).fetchall())
        )
        return StoredAttempts(dict(counts), [Attempt(run_id, call_key, ordinal, *row) for row in newest])

    async def erase(self, run_ids: Sequence[UUID]) -> None:
        """See `AttemptStore.erase`."""
        await self._store.write(lambda cursor: _erase(cursor, run_ids))


def _add(cursor: sqlite3.Cursor, attempts: Sequence[Attempt]) -> None:
    waits = set()
    for attempt in attempts:
        run_id = attempt.run_id.bytes
        if cursor.execute(_LIVE, (run_id,)).fetchone() is None:
            continue
        wait = (run_id, attempt.call_key.bytes, attempt.ordinal)
        cursor.execute(_COUNT, (*wait, attempt.verdict))
        cursor.execute(_ADD, (*wait, *attempt[3:]))
        waits.add(wait)
    cursor.executemany(_TRIM, sorted(waits))


def _erase(cursor: sqlite3.Cursor, run_ids: Sequence[UUID]) -> None:
    for table in ("link_attempts", "link_counts"):
        cursor.executemany(f"DELETE FROM {table} WHERE run_id = ?", [(run_id.bytes,) for run_id in run_ids])
