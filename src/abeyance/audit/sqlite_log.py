"""The log's tiles and checkpoint on SQLite; writes share the journal's writer thread and its commits."""

import sqlite3
from collections.abc import Sequence
from functools import partial

from abeyance.audit.log import TileRow
from abeyance.journal.sqlite.store import SQLiteJournalStore

_TILE = "SELECT hashes FROM log_tiles WHERE level = ? AND tile = ?"
_TILES = "SELECT hashes FROM log_tiles WHERE level = ? AND tile >= ? AND tile < ? ORDER BY tile"
_HEAD = "SELECT size, note FROM log_head"
_PUT_TILE = """
INSERT INTO log_tiles (level, tile, hashes) VALUES (?, ?, ?)
ON CONFLICT (level, tile) DO UPDATE SET hashes = excluded.hashes
"""


class SQLiteLogStore:
    """See `abeyance.audit.log.LogStore`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def head(self) -> str | None:
        """See `LogStore.head`."""
        row = self._store.read(lambda reader: reader.execute(_HEAD).fetchone())
        return None if row is None else row[1]

    async def read_tile(self, level: int, number: int) -> bytes:
        """See `LogStore.read_tile`."""
        row = self._store.read(lambda reader: reader.execute(_TILE, (level, number)).fetchone())
        return b"" if row is None else row[0]

    async def read_tiles(self, level: int, first: int, count: int) -> list[bytes]:
        """See `LogStore.read_tiles`."""
        wanted = (level, first, first + count)
        return [row[0] for row in self._store.read(lambda reader: reader.execute(_TILES, wanted).fetchall())]

    async def grow(self, size: int, tiles: Sequence[TileRow], new_size: int, note: str) -> bool:
        """See `LogStore.grow`."""
        return await self._store.write(partial(_grow, size=size, tiles=tiles, new_size=new_size, note=note))


def _grow(cursor: sqlite3.Cursor, size: int, tiles: Sequence[TileRow], new_size: int, note: str) -> bool:
    row = cursor.execute(_HEAD).fetchone()
    if (0 if row is None else row[0]) != size:
        return False
    cursor.execute("DELETE FROM log_head")
    cursor.execute("INSERT INTO log_head (size, note) VALUES (?, ?)", (new_size, note))
    cursor.executemany(_PUT_TILE, tiles)
    return True
