"""Signing keys on SQLite: see `abeyance.journal.signing_keys`. The one writer runs no append meanwhile."""

import sqlite3

from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.signing_keys import Ended
from abeyance.journal.sqlite.appending import write_stream
from abeyance.journal.sqlite.store import SQLiteJournalStore

_PUT = "INSERT INTO signing_keys VALUES (?, ?) ON CONFLICT (kid) DO UPDATE SET state = excluded.state"

_ENDED = "SELECT kid, state FROM signing_keys"


class SQLiteSigningKeys:
    """See `SigningKeyStore`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def end(self, kid: bytes, state: Ended, append: StreamAppend) -> bool:
        """See `SigningKeyStore.end`."""

        def work(cursor: sqlite3.Cursor) -> bool:
            if not write_stream(cursor, append.stream, append.expected, append.events):
                return False
            cursor.execute(_PUT, (kid, state))
            return True

        return await self._store.write(work)

    async def ended(self) -> dict[bytes, Ended]:
        """See `SigningKeyStore.ended`."""
        rows = self._store.read(lambda reader: reader.execute(_ENDED).fetchall())
        return {bytes(kid): state for kid, state in rows}
