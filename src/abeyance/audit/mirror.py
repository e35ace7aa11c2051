"""The mirror: the log in a folder, as C2SP tlog-tiles v0.1.0 lays it out, so that any web server serves it.

`tile/<L>/<N>[.p/<W>]`, `tile/entries/<N>[.p/<W>]` and `checkpoint`; beside them `envelopes/<N>.jsonl`, the
records' lines as a bundle has them, since entries are bodies without signatures. No contents.

The checkpoint is written last. What is below it never changes; a partial tile goes once the full one is
under a checkpoint (tlog-tiles: it must be served until then). So whenever the process is killed, the folder
is the log of some checkpoint. Each tile is held to its events and to the tile above before it is written,
the topmost to the checkpoint: nothing that the log didn't sign gets there. A folder whose checkpoint the
store's log doesn't continue is left as it is.
"""

import asyncio
import os
from collections.abc import Callable, Iterator

from abeyance.audit.bundle import record_line
from abeyance.audit.log import Head, Log
from abeyance.audit.mirror_files import CHECKPOINT, MirrorFiles
from abeyance.audit.tiles import HASH_BYTES, HEIGHT, WIDTH, Tile, number_path, tile_root
from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.body import leaf_hash
from abeyance.journal.envelope import EventCodec
from abeyance.journal.store import JournalStore, SealedEvent

PLACE = "the mirror (ABEYANCE_AUDIT_MIRROR)"


def never() -> bool:
    """Nobody wants the mirror to stop."""
    return False


class Mirror:
    """Writes the log to a folder. Memory doesn't grow with what is to be written."""

    def __init__(self, log: Log, journal: JournalStore, codec: EventCodec, files: MirrorFiles) -> None:
        self._log = log
        self._journal = journal
        self._codec = codec
        self.files = files
        self._tidied = False

    async def check(self) -> None:
        """Raise `VerificationError` if the store's log doesn't continue what is in the folder, `OSError` if
        that can't be read.
        """
        await self._log.continued(await self._there(), PLACE)

    async def advance(self, *, most: int | None = None, stop: Callable[[], bool] = never) -> None:
        """Bring the folder to the store's newest checkpoint. Given up, to go on another time, when `stop`
        says so, or if that takes over `most` records; nothing is done while another process does it.

        Raises `VerificationError` if folder and store contradict each other, or the store itself; `OSError`
        if a file can't be written.
        """
        lock = await asyncio.to_thread(self.files.lock)
        if lock is None:
            return
        try:
            await self._advance(most, stop)
        finally:
            await asyncio.to_thread(os.close, lock)

    async def _advance(self, most: int | None, stop: Callable[[], bool]) -> None:
        there = await self._there()
        # Read after the folder's: another process may have taken that one from the store a moment ago.
        head = await self._log.continued(there, PLACE)
        behind = head.size - there.size
        if head.note is None or not behind or (most is not None and behind > most):
            return
        await self._log.check_root(head)
        for tile in _changed(0, there.size, head.size):
            if stop():
                return
            await self._add_records(tile)
        for level in range(1, _levels(head.size)):
            for tile in _changed(level, there.size, head.size):
                hashes = await self._read_tile(tile)
                await asyncio.to_thread(self.files.add, f"tile/{tile.path}", hashes)
        await asyncio.to_thread(self._finish, head.note)
        # The first time also what a kill left between the two.
        await asyncio.to_thread(self._tidy, there.size if self._tidied else 0, head.size)
        self._tidied = True

    async def _there(self) -> Head:
        raw = await asyncio.to_thread(self.files.read, CHECKPOINT)
        try:
            return self._log.open(None if raw is None else raw.decode())
        except (VerificationError, UnicodeDecodeError) as error:
            reason = getattr(error, "reason", "it isn't text")
            raise VerificationError(
                f"the checkpoint in {PLACE} isn't of this log: {reason}", CHECKPOINT
            ) from None

    async def _add_records(self, tile: Tile) -> None:
        hashes = await self._read_tile(tile)
        events = await self._journal.read_sealed(tile.number * WIDTH, tile.width)
        await asyncio.to_thread(self._write_records, tile, hashes, events)

    async def _read_tile(self, tile: Tile) -> bytes:
        """A tile of the store, held to the one above it."""
        level, number, width = tile
        hashes = (await self._log.store.read_tile(level, number))[: width * HASH_BYTES]
        fits = len(hashes) == width * HASH_BYTES
        if fits and width == WIDTH:
            above = await self._log.store.read_tile(level + 1, number // WIDTH)
            start = number % WIDTH * HASH_BYTES
            fits = tile_root(hashes) == above[start : start + HASH_BYTES]
        if not fits:
            raise VerificationError("a stored tile doesn't lead to the checkpoint", f"tile {level}/{number}")
        return hashes

    def _write_records(self, tile: Tile, hashes: bytes, events: list[SealedEvent]) -> None:
        entries, lines = list[bytes](), list[bytes]()
        for place in range(tile.width):
            index = tile.number * WIDTH + place
            if place >= len(events) or events[place].sealed_index != index:
                raise HistoryDamagedError("a sealed event isn't stored", where=f"record {index}")
            body = self._codec.plain(events[place].event)
            if leaf_hash(body) != hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]:
                raise HistoryDamagedError("the event isn't the one that was signed", where=f"record {index}")
            entries.append(len(body).to_bytes(2) + body)
            lines.append(record_line(index, events[place].event, body))
        self.files.add(f"tile/{tile.path}", hashes)
        self.files.add(f"tile/entries/{tile.path.removeprefix('0/')}", b"".join(entries))
        self.files.add(f"envelopes/{number_path(tile.number)}.jsonl", b"".join(lines))

    def _finish(self, note: str) -> None:
        self.files.sync()
        self.files.write(CHECKPOINT, note.encode())
        self.files.sync()

    def _tidy(self, older: int, newer: int) -> None:
        """Remove the partial tiles of tiles that have become full."""
        for level in range(_levels(newer)):
            for tile in _changed(level, older, newer):
                if tile.width == WIDTH:
                    self.files.remove_folder(f"tile/{tile.path}.p")
                    if level == 0:
                        self.files.remove_folder(f"tile/entries/{number_path(tile.number)}.p")


def _levels(size: int) -> int:
    """How many levels of tiles a tree has."""
    return (max(size.bit_length(), 1) - 1) // HEIGHT + 1


def _changed(level: int, older: int, newer: int) -> Iterator[Tile]:
    """What a tree of `newer` has of a level's tiles that one of `older` lacks."""
    start, end = older >> (HEIGHT * level), newer >> (HEIGHT * level)
    if start < end:
        for number in range(start // WIDTH, -(-end // WIDTH)):
            yield Tile(level, number, min(WIDTH, end - number * WIDTH))
