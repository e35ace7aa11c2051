"""The gap-free order of the whole journal: which event stands at which index.

On SQLite the order of rowids is the order of commits. Sealing writes it down once, in tiles of 256
entries, so that an index still names its event when rows are gone or were renumbered by a restore.
"""

import sqlite3
import struct
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from uuid import UUID

from abeyance.journal.store import EventRow, SealedEvent

TILE = 256
_ENTRY = struct.Struct(">16sQ")

SELECT_SEALER = "SELECT size, last_event FROM sealer"
SELECT_NEW = """
SELECT rowid, originator_id, originator_version FROM journal_events
WHERE rowid > (SELECT last_event FROM sealer) ORDER BY rowid LIMIT ?
"""
SELECT_TILE = "SELECT first_event, entries FROM sealed_tiles WHERE tile = ?"
SELECT_TILE_EVENTS = """
SELECT originator_id, originator_version, topic, state FROM journal_events
WHERE rowid >= ? ORDER BY rowid LIMIT ?
"""
SELECT_FIRST_EVENT = "SELECT first_event FROM sealed_tiles WHERE tile = ?"
SELECT_ROWID = "SELECT rowid FROM journal_events WHERE originator_id = ? AND originator_version = ?"
_PUT_TILE = """
INSERT INTO sealed_tiles (tile, first_event, entries) VALUES (?, ?, ?)
ON CONFLICT (tile) DO UPDATE SET entries = excluded.entries
"""
_SWAP_SEALER = "UPDATE sealer SET size = ?, last_event = ? WHERE size = ?"


def sealed_size(cursor: sqlite3.Cursor) -> int:
    """How many events have their index."""
    return int(cursor.execute(SELECT_SEALER).fetchone()[0])


def has_unsealed(cursor: sqlite3.Cursor) -> bool:
    """Whether there are events without an index."""
    return cursor.execute(SELECT_NEW, (1,)).fetchone() is not None


def seal(cursor: sqlite3.Cursor, limit: int) -> int:
    """Give up to `limit` events their index; the new size."""
    size = sealed_size(cursor)
    rows = cursor.execute(SELECT_NEW, (max(limit, 0),)).fetchall()
    if not rows:
        return size
    if cursor.execute(_SWAP_SEALER, (size + len(rows), rows[-1][0], size)).rowcount != 1:
        return sealed_size(cursor)
    for tile, group in groupby(enumerate(rows, start=size), key=lambda place: place[0] // TILE):
        _extend_tile(cursor, tile, [row for _, row in group])
    return size + len(rows)


def _extend_tile(cursor: sqlite3.Cursor, tile: int, rows: list[tuple[Any, ...]]) -> None:
    stored = cursor.execute(SELECT_TILE, (tile,)).fetchone()
    first, entries = stored or (rows[0][0], b"")
    added = b"".join(_ENTRY.pack(bytes.fromhex(stream), version) for _, stream, version in rows)
    cursor.execute(_PUT_TILE, (tile, first, entries + added))


def read_sealed(cursor: sqlite3.Cursor, start: int, limit: int) -> list[SealedEvent]:
    """Up to `limit` sealed events from index `start` on. An event whose row is gone is left out."""
    start = max(start, 0)
    stop = min(start + max(limit, 0), sealed_size(cursor))
    found: list[SealedEvent] = []
    while start < stop:
        end = min(stop, (start // TILE + 1) * TILE)
        found.extend(_read_tile(cursor, start, end))
        start = end
    return found


def sealed_indexes(cursor: sqlite3.Cursor, stream: UUID, versions: Iterable[int]) -> dict[int, int]:
    """The indexes of those of these events that have one, by version."""
    tiles = (sealed_size(cursor) + TILE - 1) // TILE
    found: dict[int, int] = {}
    tile, entries = -1, b""
    for version in versions:
        row = cursor.execute(SELECT_ROWID, (stream.hex, version)).fetchone()
        wanted = -1 if row is None else _tile_of(cursor, row[0], tiles)
        if wanted < 0:
            continue
        if wanted != tile:
            tile, entries = wanted, cursor.execute(SELECT_TILE, (wanted,)).fetchone()[1]
        place = _place_in(entries, stream.bytes, version)
        if place is not None:
            found[version] = tile * TILE + place
    return found


def _tile_of(cursor: sqlite3.Cursor, rowid: int, tiles: int) -> int:
    """The last tile whose first event isn't after `rowid`; -1 if there is none."""
    low, high = 0, tiles
    while low < high:
        middle = (low + high) // 2
        (first,) = cursor.execute(SELECT_FIRST_EVENT, (middle,)).fetchone()
        low, high = (middle + 1, high) if first <= rowid else (low, middle)
    return low - 1


def _place_in(entries: bytes, stream: bytes, version: int) -> int | None:
    entry, offset = _ENTRY.pack(stream, version), -1
    while (offset := entries.find(entry, offset + 1)) >= 0:
        if offset % _ENTRY.size == 0:
            return offset // _ENTRY.size
    return None


def _read_tile(cursor: sqlite3.Cursor, start: int, end: int) -> list[SealedEvent]:
    """The events from index `start` to before `end`, which are all in one tile."""
    first, entries = cursor.execute(SELECT_TILE, (start // TILE,)).fetchone()
    offset, size = start % TILE, len(entries) // _ENTRY.size
    wanted = list(_ENTRY.iter_unpack(entries))[offset : offset + end - start]
    # Without gaps an entry's rowid is the first one's plus its place; after a gap it can only be higher.
    rows = cursor.execute(SELECT_TILE_EVENTS, (first + offset, len(wanted))).fetchall()
    if [_key(row) for row in rows] != wanted:
        rows = cursor.execute(SELECT_TILE_EVENTS, (first, size)).fetchall()
        by_key = {_key(row): row for row in rows}
        places = [(start + place, by_key[entry]) for place, entry in enumerate(wanted) if entry in by_key]
    else:
        places = list(enumerate(rows, start=start))
    streams = {stream: UUID(stream) for stream in {row[0] for _, row in places}}
    return [
        SealedEvent(index, EventRow(streams[stream], version, topic, state))
        for index, (stream, version, topic, state) in places
    ]


def _key(row: tuple[Any, ...]) -> tuple[bytes, int]:
    return bytes.fromhex(row[0]), row[1]
