"""At which sealed index an event stands: from its place in the order of commits to its tile.

An event lies in the last tile that begins at or before it, unless it was held back for its predecessor: then
it was sealed later, and the tiles are searched for its stream.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from uuid import UUID

from abeyance.journal.postgres.sealing import TILE_EVENTS, Steps
from abeyance.journal.postgres.wire import statement

_ENTRY = Struct("!16sQ")
_TILES_OF = statement(
    "SELECT e.originator_version, ("
    " SELECT t.tile FROM sealed_tiles AS t WHERE (t.first_tx, t.first_id) <= (e.tx, e.notification_id)"
    " ORDER BY t.tile DESC LIMIT 1)"
    " FROM journal_events AS e JOIN sealer AS s ON (e.tx, e.notification_id) <= (s.last_tx, s.last_id)"
    " WHERE e.originator_id = $1 AND e.originator_version = ANY ($2) AND NOT EXISTS ("
    " SELECT FROM sealer_held AS h"
    " WHERE h.originator_id = $1 AND h.originator_version = e.originator_version)",
    "uuid", "bigint[]",
)  # fmt: skip
_ENTRIES = statement("SELECT tile, entries FROM sealed_tiles WHERE tile = ANY ($1)", "bigint[]")
_SEARCH = statement("SELECT tile, entries FROM sealed_tiles WHERE position($1 IN entries) > 0", "bytea")


def sealed_indexes(stream: UUID, versions: Sequence[int]) -> Steps[dict[int, int]]:
    """The indexes of those of these events that have one, by version."""
    sealed = yield _TILES_OF, [stream, list(versions)]
    tiles = sorted({tile for _, tile in sealed if tile is not None})
    entries = yield _ENTRIES, [tiles]
    wanted = {version for version, _ in sealed}
    found = _indexes_in(entries, stream, wanted)
    if wanted - found.keys():
        entries = yield _SEARCH, [stream.bytes]
        found = _indexes_in(entries, stream, wanted)
    return found


def _indexes_in(tiles: Iterable[tuple[int, bytes]], stream: UUID, versions: Iterable[int]) -> dict[int, int]:
    wanted = {_ENTRY.pack(stream.bytes, version): version for version in versions}
    return {
        wanted[entry]: tile * TILE_EVENTS + place
        for tile, entries in tiles
        for place in range(len(entries) // _ENTRY.size)
        if (entry := entries[place * _ENTRY.size : (place + 1) * _ENTRY.size]) in wanted
    }
