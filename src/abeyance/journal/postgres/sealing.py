"""The sealer: every committed event gets its gap-free index in the whole journal (docs/adr/0004).

The order is that of `(transaction id, notification id)`, read only below the oldest transaction that still
runs, so nothing can be committed into what was read. Every writer takes its run's lock before it gets a
transaction id, so versions of a run stand in order. Should somebody have written without the lock, the
second line holds: an event whose predecessor comes later is held back until that one is sealed.
"""

from collections.abc import Generator, Iterable, Sequence
from struct import Struct
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from abeyance.journal.postgres.wire import Statement, rows_of, statement, value_of
from abeyance.journal.store import EventRow, SealedEvent

TILE_EVENTS = 256
_ENTRY = Struct("!16sQ")

UNSEALED = rows_of("journal_unsealed", "bigint")
HELD = statement("SELECT originator_id, originator_version FROM sealer_held")
SEAL = value_of(
    "journal_seal", *["bigint"] * 6, "bigint[]", "bigint[]", "bigint[]", "bytea[]",
    "uuid[]", "bigint[]", "uuid[]", "bigint[]",
)  # fmt: skip
TILES = statement(
    "SELECT tile, entries FROM sealed_tiles WHERE tile BETWEEN $1 AND $2 ORDER BY tile", "bigint", "bigint"
)
EVENTS = statement(
    "SELECT p.place, e.originator_id, e.originator_version, e.topic, e.state"
    " FROM unnest($1, $2) WITH ORDINALITY AS p (stream, version, place)"
    " JOIN journal_events AS e ON e.originator_id = p.stream AND e.originator_version = p.version"
    " ORDER BY p.place",
    "uuid[]", "bigint[]",
)  # fmt: skip

Name = tuple[UUID, int]
Result = TypeVar("Result")
# What an exchange with the database asks, and what it returns in the end; the asynchronous store and the
# synchronous recorder each carry it out.
Steps = Generator[tuple[Statement, list[Any]], list[tuple[Any, ...]], Result]


class Place(NamedTuple):
    """Where the sealer is: the last pair that it looked at, and how many events have their index."""

    tx: int
    id: int
    size: int


class Unsealed(NamedTuple):
    """A committed event, and whether its predecessor comes before it."""

    tx: int
    id: int
    stream: UUID
    version: int
    follows: bool


class Ordered(NamedTuple):
    """Events that are sealed now, each with the pair of the one that let it; what is held back and what
    isn't any more.
    """

    sealed: list[Unsealed]
    held: set[Name]
    freed: set[Name]


def put_in_order(rows: Iterable[Unsealed], held: Iterable[Name]) -> Ordered:
    """Seal `rows` in their order, except that no event comes before its predecessor."""
    before = set(held)
    waiting = set(before)
    sealed: list[Unsealed] = []
    for row in rows:
        if not row.follows or (row.stream, row.version - 1) in waiting:
            waiting.add((row.stream, row.version))
            continue
        sealed.append(row)
        version = row.version + 1
        while (row.stream, version) in waiting:
            waiting.discard((row.stream, version))
            sealed.append(row._replace(version=version))
            version += 1
    return Ordered(sealed, waiting - before, before - waiting)


def seal(limit: int) -> Steps[int]:
    """Seal up to `limit` events, if nobody else does meanwhile; the size after that."""
    (tx, last_id, _, size, nothing_held), *rows = yield UNSEALED, [max(limit, 0)]
    if not rows:
        return int(size)
    place, events = Place(tx, last_id, size), [Unsealed(*row) for row in rows]
    held = [] if nothing_held else (yield HELD, [])
    ordered = put_in_order(events, [(stream, version) for stream, version in held])
    ((won,),) = yield SEAL, _seal_values(place, events[-1], ordered)
    if won:
        return place.size + len(ordered.sealed)
    return int((yield UNSEALED, [0])[0][3])


def read_sealed(start: int, limit: int) -> Steps[list[SealedEvent]]:
    """Up to `limit` sealed events from index `start` on. An event whose row is gone is left out."""
    start, limit = max(start, 0), max(limit, 0)
    tiles = yield TILES, [start // TILE_EVENTS, (start + limit) // TILE_EVENTS]
    names = _names_in([(tile, entries) for tile, entries in tiles], start, limit)
    if not names:
        return []
    rows = yield EVENTS, [[stream for stream, _ in names], [version for _, version in names]]
    return [SealedEvent(start + place - 1, EventRow(*event)) for place, *event in rows]


def _seal_values(place: Place, last: Unsealed, ordered: Ordered) -> list[Any]:
    """The parameters of `SEAL`; `last` is the last row that was looked at."""
    size = place.size + len(ordered.sealed)
    tiles: dict[int, list[Unsealed]] = {}
    for index, row in enumerate(ordered.sealed, place.size):
        tiles.setdefault(index // TILE_EVENTS, []).append(row)
    held, freed = sorted(ordered.held), sorted(ordered.freed)
    return [
        place.size, place.tx, place.id, size, last.tx, last.id,
        list(tiles),
        [rows[0].tx for rows in tiles.values()],
        [rows[0].id for rows in tiles.values()],
        [b"".join(_ENTRY.pack(row.stream.bytes, row.version) for row in rows) for rows in tiles.values()],
        [stream for stream, _ in held], [version for _, version in held],
        [stream for stream, _ in freed], [version for _, version in freed],
    ]  # fmt: skip


def _names_in(tiles: Sequence[tuple[int, bytes]], start: int, limit: int) -> list[Name]:
    """The events at index `start` and the following ones, at most `limit`."""
    if not tiles:
        return []
    entries = b"".join(entries for _, entries in tiles)
    skipped = (start - tiles[0][0] * TILE_EVENTS) * _ENTRY.size
    wanted = entries[skipped : skipped + limit * _ENTRY.size]
    return [(UUID(bytes=stream), version) for stream, version in _ENTRY.iter_unpack(wanted)]
