"""The log: the sealed index as a Merkle tree, with a signed checkpoint over its newest size.

One step reads what was sealed since the newest checkpoint, adds the leaves to the tiles, and signs the new
head. Before it signs, it recomputes the root at the old size from the tiles and holds it to the old
checkpoint: two inconsistent heads are never signed. Tiles and checkpoint are written in one transaction, by
compare-and-swap on the size, so that of two keepers one wins and a kill loses nothing.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from abeyance.audit.merkle import Frontier, Subtrees, frontier_of
from abeyance.audit.notes import Checkpoint, NoteKey, open_note, parse_checkpoint, sign_note
from abeyance.audit.tiles import HASH_BYTES, WIDTH, subtrees_in, tile_root
from abeyance.crypto.signing import Signer
from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.body import leaf_hash
from abeyance.journal.envelope import EventCodec
from abeyance.journal.store import JournalStore, KeyStore

BATCH = 256
_SLICE = 32


class TileRow(NamedTuple):
    """The hashes of one tile as they are stored: 32 bytes each, at most 256."""

    level: int
    number: int
    hashes: bytes


class LogStore(Protocol):
    """The log's tiles and its newest checkpoint, in the journal's database."""

    async def head(self) -> str | None:
        """The newest checkpoint as a signed note, `None` for a log that has none yet."""

    async def read_tile(self, level: int, number: int) -> bytes:
        """The hashes of a tile, empty if there is none."""

    async def read_tiles(self, level: int, first: int, count: int) -> list[bytes]:
        """The hashes of tiles of one level from number `first` on; ends where there are none."""

    async def grow(self, size: int, tiles: Sequence[TileRow], new_size: int, note: str) -> bool:
        """Put tiles and checkpoint in place if the newest checkpoint still has `size`; whether it had."""


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint with the note that it was read from."""

    checkpoint: Checkpoint
    note: str | None

    @property
    def size(self) -> int:
        """How many records the tree has."""
        return self.checkpoint.size


class Log:
    """The log of one deployment. `signer` is its log key; `log_keys` are raw public keys that may have signed
    its newest checkpoint too: before a rotation, or in another process by now. `keys` keeps the newest
    checkpoint apart from the journal, so that a journal that was restored alone from an old copy is found.
    """

    def __init__(
        self,
        journal: JournalStore,
        store: LogStore,
        keys: KeyStore,
        codec: EventCodec,
        signer: Signer,
        *,
        log_keys: Collection[bytes] = (),
    ) -> None:
        self._journal = journal
        self.store = store
        self._keys = keys
        self._codec = codec
        self._signer = signer
        self.key = NoteKey(codec.origin, signer.public_key)
        self._log_keys = log_keys

    async def head(self) -> Head:
        """The newest checkpoint, verified. Raises `VerificationError`."""
        note = await self.store.head()
        return self.open(note)

    async def step(self) -> bool:
        """Take in what was sealed and sign it, at most `BATCH` records; whether there may be more.

        Raises `VerificationError` if the tiles don't agree with the checkpoint, `HistoryDamagedError` if a
        sealed event is missing or can't be read. Then nothing is signed.
        """
        head = await self.head()
        leaves = await self._leaves(head.size)
        if not leaves:
            return False
        tiles = await self._load_edge(head.size)
        frontier = self._checked_frontier(head, tiles)
        rows = add_leaves(tiles, head.size, leaves)
        frontier.extend(leaves)
        checkpoint = Checkpoint(self._codec.origin, frontier.size, frontier.root)
        note = sign_note(checkpoint.text, checkpoint.origin, self._signer)
        if await self.store.grow(head.size, rows, checkpoint.size, note):
            await self._keys.keep_checkpoint(note, checkpoint.size)
        return len(leaves) == BATCH

    async def check_kept_head(self) -> None:
        """Raise `VerificationError` if the store is behind the checkpoint that was kept outside of it."""
        await self.continued(self.open(await self._keys.kept_checkpoint()), "the key store")

    async def continued(self, kept: Head, place: str) -> Head:
        """The newest checkpoint, if the log still begins with `kept`, which is in `place`. Raises
        `VerificationError` for a store that is behind it or has other records.
        """
        head = await self.head()
        if kept.note is None or (
            head.size >= kept.size and await self._root(kept.size) == kept.checkpoint.root
        ):
            return head
        raise VerificationError(
            f"the store has {head.size} records of the log, or other ones, where {place} has a signed "
            f"checkpoint over {kept.size}: the store was restored from an old copy",
            "the log",
        )

    async def check_root(self, head: Head) -> None:
        """Raise `VerificationError` unless the tiles lead to the root hash of this checkpoint."""
        if await self._root(head.size) != head.checkpoint.root:
            raise VerificationError("the stored tiles don't lead to its root hash", f"size {head.size}")

    async def _root(self, size: int) -> bytes:
        return frontier_of(size, _subtrees(await self._load_edge(size))).root

    def open(self, note: str | None) -> Head:
        """Read a checkpoint of this log. Raises `VerificationError`."""
        if note is None:
            return Head(Checkpoint(self._codec.origin, 0, Frontier().root), None)
        known = (NoteKey(self._codec.origin, key) for key in self._log_keys)
        checkpoint = parse_checkpoint(open_note(note, self.key, *known))
        if checkpoint.origin != self._codec.origin:
            raise VerificationError("the newest checkpoint is of another log")
        return Head(checkpoint, note)

    async def _leaves(self, start: int) -> list[bytes]:
        sealed = await self._journal.read_sealed(start, BATCH)
        for place, event in enumerate(sealed, start):
            if event.sealed_index != place:
                raise HistoryDamagedError("a sealed event isn't stored", where=f"record {place}")
        leaves: list[bytes] = []
        for first in range(0, len(sealed), _SLICE):
            leaves += [leaf_hash(self._codec.plain(each.event)) for each in sealed[first : first + _SLICE]]
            await asyncio.sleep(0)  # runs go on meanwhile
        return leaves

    async def _load_edge(self, size: int) -> dict[tuple[int, int], bytes]:
        """The last tile of each level of a tree of this size, cut to it."""
        tiles, level = {}, 0
        while size >> (8 * level):
            count = size >> (8 * level)
            number, width = divmod(count, WIDTH)
            if width:
                hashes = await self.store.read_tile(level, number)
                tiles[level, number] = hashes[: width * HASH_BYTES]
            level += 1
        return tiles

    def _checked_frontier(self, head: Head, tiles: dict[tuple[int, int], bytes]) -> Frontier:
        frontier = frontier_of(head.size, _subtrees(tiles))
        if frontier.root != head.checkpoint.root:
            raise VerificationError(
                "the stored tiles don't lead to the root hash of the newest checkpoint: nothing is signed",
                f"size {head.size}",
            )
        return frontier


def _subtrees(tiles: dict[tuple[int, int], bytes]) -> Subtrees:
    return subtrees_in(lambda level, number: tiles.get((level, number), b""))


def add_leaves(tiles: dict[tuple[int, int], bytes], size: int, leaves: Sequence[bytes]) -> list[TileRow]:
    """The tiles that change when `leaves` follow a tree of `size`, whose edge `tiles` holds. Pure."""
    changed: dict[tuple[int, int], bytes] = {}
    hashes, level = list(leaves), 0
    while hashes:
        count = size >> (8 * level)
        full: list[bytes] = []
        for each in hashes:
            key = (level, count // WIDTH)
            grown = changed.get(key, tiles.get(key, b"")) + each
            changed[key] = grown
            count += 1
            if count % WIDTH == 0:
                full.append(tile_root(grown))
        hashes, level = full, level + 1
    return [TileRow(level, number, hashes) for (level, number), hashes in changed.items()]
