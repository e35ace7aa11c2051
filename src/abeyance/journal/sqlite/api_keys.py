"""API keys on SQLite: see `abeyance.journal.api_keys`."""

import json
import sqlite3
from typing import Any

from abeyance.journal.api_keys import ApiKeyRow, StreamAppend
from abeyance.journal.sqlite.appending import write_stream
from abeyance.journal.sqlite.store import SQLiteJournalStore

_COLUMNS = "id, digest, name, workspace, project, grants, executes, created, expires, revoked, actor"
_FIND = f"SELECT {_COLUMNS} FROM api_keys WHERE digest = ?"
_GET = f"SELECT {_COLUMNS} FROM api_keys WHERE workspace = ? AND id = ?"
_PAGE = f"""
SELECT {_COLUMNS} FROM api_keys
WHERE workspace = ?1 AND id > ?3 AND (?2 IS NULL OR project = ?2) ORDER BY id LIMIT ?4
"""
_PUT = f"INSERT INTO api_keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REVOKE = "UPDATE api_keys SET revoked = ? WHERE id = ? AND revoked IS NULL"


class SQLiteApiKeys:
    """See `ApiKeyStore`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def find(self, digest: bytes) -> ApiKeyRow | None:
        """See `ApiKeyStore.find`."""
        return _row(self._store.read(lambda reader: reader.execute(_FIND, (digest,)).fetchone()))

    async def get(self, workspace: str, key_id: str) -> ApiKeyRow | None:
        """See `ApiKeyStore.get`."""
        return _row(self._store.read(lambda reader: reader.execute(_GET, (workspace, key_id)).fetchone()))

    async def page(self, workspace: str, project: str | None, after: str, limit: int) -> list[ApiKeyRow]:
        """See `ApiKeyStore.page`."""
        values = (workspace, project, after, limit)
        rows = self._store.read(lambda reader: reader.execute(_PAGE, values).fetchall())
        return [row for row in map(_row, rows) if row is not None]

    async def create(self, row: ApiKeyRow, append: StreamAppend) -> bool:
        """See `ApiKeyStore.create`."""
        values = row._replace(
            grants=json.dumps(row.grants),  # type: ignore[arg-type] # as the column has it
            executes=None if row.executes is None else json.dumps(row.executes),  # type: ignore[arg-type]
        )
        return await self._change(append, _PUT, values)

    async def revoke(self, key_id: str, revoked: int, append: StreamAppend) -> bool:
        """See `ApiKeyStore.revoke`."""
        return await self._change(append, _REVOKE, (revoked, key_id))

    async def _change(self, append: StreamAppend, statement: str, values: tuple[Any, ...]) -> bool:
        def work(cursor: sqlite3.Cursor) -> bool:
            if not write_stream(cursor, append.stream, append.expected, append.events):
                return False
            cursor.execute(statement, values)
            return True

        return await self._store.write(work)


def _row(found: tuple[Any, ...] | None) -> ApiKeyRow | None:
    if found is None:
        return None
    row = ApiKeyRow(*found)
    executes = row.executes
    return row._replace(
        grants=tuple(json.loads(str(row.grants))),
        executes=None if executes is None else tuple(json.loads(str(executes))),
    )
