"""The log's tiles and checkpoint on PostgreSQL: each call is one statement."""

from collections.abc import Sequence

from abeyance.audit.log import TileRow
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement, value_of

_HEAD = statement("SELECT note FROM log_head WHERE size > 0")
_TILE = statement("SELECT hashes FROM log_tiles WHERE level = $1 AND tile = $2", "bigint", "bigint")
_TILES = statement(
    "SELECT hashes FROM log_tiles WHERE level = $1 AND tile >= $2 AND tile < $3 ORDER BY tile",
    "bigint", "bigint", "bigint",
)  # fmt: skip
_GROW = value_of("log_grow", "bigint", "bigint", "text", "bigint[]", "bigint[]", "bytea[]")


class PostgresLogStore:
    """See `abeyance.audit.log.LogStore`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def head(self) -> str | None:
        """See `LogStore.head`."""
        rows = await self._store.fetch(_HEAD)
        return rows[0][0] if rows else None

    async def read_tile(self, level: int, number: int) -> bytes:
        """See `LogStore.read_tile`."""
        rows = await self._store.fetch(_TILE, level, number)
        return rows[0][0] if rows else b""

    async def read_tiles(self, level: int, first: int, count: int) -> list[bytes]:
        """See `LogStore.read_tiles`."""
        return [hashes for (hashes,) in await self._store.fetch(_TILES, level, first, first + count)]

    async def grow(self, size: int, tiles: Sequence[TileRow], new_size: int, note: str) -> bool:
        """See `LogStore.grow`."""
        columns = [[tile[column] for tile in tiles] for column in range(3)]
        ((grown,),) = await self._store.fetch(_GROW, size, new_size, note, *columns)
        return bool(grown)
