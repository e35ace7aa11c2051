"""Tiles: the Merkle tree in pieces of 256 hashes, as C2SP tlog-tiles v0.1.0 cuts and names them. Pure.

Tile `n` of level `l` holds the hashes of the 256 perfect subtrees of `256**l` leaves from number `256 * n`
on; level 0 holds the leaves' own hashes. The last tile of a level may be partial; a full one never changes.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from abeyance.audit.merkle import Subtrees, node_hash
from abeyance.errors import VerificationError

HEIGHT = 8
WIDTH = 1 << HEIGHT
HASH_BYTES = 32

_PATH = re.compile(
    r"(?P<level>0|[1-9]\d?)/(?P<groups>(?:x\d{3}/)*\d{3})(?:\.p/(?P<width>[1-9]\d{0,2}))?", re.ASCII
)


class Tile(NamedTuple):
    """The name of a tile. `width` says how many of its hashes are meant; 256 is a full one."""

    level: int
    number: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """The tile's path below `tile/`, such as `0/x001/x234/067.p/112`."""
        partial = "" if self.width == WIDTH else f".p/{self.width}"
        return f"{self.level}/{number_path(self.number)}{partial}"


ReadTile = Callable[[int, int], bytes]
"""The hashes that are stored of a tile, by level and number; at least as many as are asked for."""


def number_path(number: int) -> str:
    """A tile's number in groups of three digits, all but the last with an `x`: 1234067 is `x001/x234/067`."""
    groups = [f"{number % 1000:03d}"]
    while number := number // 1000:
        groups.append(f"x{number % 1000:03d}")
    return "/".join(reversed(groups))


def parse_path(path: str) -> Tile | None:
    """The tile that a path below `tile/` names, `None` for any other text."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    number = int(found["groups"].replace("x", "").replace("/", ""))
    width = int(found["width"] or WIDTH)
    level = int(found["level"])
    tile = Tile(level, number, width)
    return tile if width <= WIDTH and level < HEIGHT and tile.path == path else None


def tiles_of(size: int) -> Iterator[Tile]:
    """The newest tile of each level that a tree of `size` leaves has, partial or full."""
    level = 0
    while size:
        yield Tile(level, (size - 1) // WIDTH, (size - 1) % WIDTH + 1)
        size, level = size // WIDTH, level + 1


def exists(tile: Tile, size: int) -> bool:
    """Whether a tree of `size` leaves has so much of this tile."""
    return tile.number * WIDTH + tile.width <= size >> (HEIGHT * tile.level)


def tile_root(hashes: bytes) -> bytes:
    """The hash of the perfect subtree over all hashes of a full tile, or of a part of 2**n hashes."""
    row = [hashes[start : start + HASH_BYTES] for start in range(0, len(hashes), HASH_BYTES)]
    while len(row) > 1:
        row = [node_hash(left, right) for left, right in zip(row[::2], row[1::2], strict=True)]
    return row[0]


def subtrees_in(read: ReadTile) -> Subtrees:
    """Perfect subtrees out of tiles, each of which is read once. They raise `VerificationError` where a tile
    has fewer hashes than the tree.
    """
    known: dict[tuple[int, int], bytes] = {}

    def subtree(level: int, index: int) -> bytes:
        tile_level, above = divmod(level, HEIGHT)
        first = index << above
        key = (tile_level, first // WIDTH)
        if key not in known:
            known[key] = read(*key)
        start = first % WIDTH * HASH_BYTES
        hashes = known[key][start : start + (HASH_BYTES << above)]
        if len(hashes) != HASH_BYTES << above:
            raise VerificationError("a stored tile has fewer hashes than its tree", f"tile {key[0]}/{key[1]}")
        return tile_root(hashes)

    return subtree
