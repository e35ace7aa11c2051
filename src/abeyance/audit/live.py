"""The log in a store, held to its events: each sealed event to its tile, the tiles to the checkpoint."""

from dataclasses import dataclass, field

from abeyance.audit.findings import Finding
from abeyance.audit.merkle import Frontier
from abeyance.audit.notes import NoteKey, open_note, parse_checkpoint
from abeyance.audit.tiles import HASH_BYTES, WIDTH
from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.body import leaf_hash
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import EventRow, JournalSnapshot

_TILES_A_PAGE = 2


@dataclass(slots=True)
class LogVerifier:
    """Verifies the log of one snapshot. `log_keys` are raw public keys that may sign checkpoints."""

    snapshot: JournalSnapshot
    codec: EventCodec
    log_keys: tuple[bytes, ...]
    findings: list[Finding] = field(default_factory=list)
    size: int = 0

    async def verify(self) -> None:
        """Read the whole log once; what is wrong is in `findings`."""
        rows = await self.snapshot.select("SELECT size, note FROM log_head")
        if not rows or not rows[0][0]:
            return
        self.size, note = rows[0]
        root = self._signed_root(note)
        frontier = Frontier()
        for first in range(0, -(-self.size // WIDTH), _TILES_A_PAGE):
            await self._verify_tiles(first, frontier)
        if root is not None and frontier.root != root:
            self._add("the events don't lead to the root hash of the newest checkpoint", None)

    def _signed_root(self, note: str) -> bytes | None:
        keys = [NoteKey(self.codec.origin, key) for key in self.log_keys]
        try:
            checkpoint = parse_checkpoint(open_note(note, *keys))
        except VerificationError as error:
            self._add(f"the newest checkpoint: {error.reason}", None)
            return None
        if (checkpoint.origin, checkpoint.size) != (self.codec.origin, self.size):
            self._add("the newest checkpoint is of another log or another size", None)
            return None
        return checkpoint.root

    async def _verify_tiles(self, first: int, frontier: Frontier) -> None:
        tiles = await self._tiles(first)
        start, stop = first * WIDTH, min(self.size, (first + _TILES_A_PAGE) * WIDTH)
        events = {
            each.sealed_index: each.event for each in await self.snapshot.read_sealed(start, stop - start)
        }
        for index in range(start, stop):
            place = index % WIDTH * HASH_BYTES
            stored = tiles.get(index // WIDTH, b"")[place : place + HASH_BYTES]
            event = events.get(index)
            try:
                leaf = stored if event is None else leaf_hash(self.codec.plain(event))
            except HistoryDamagedError:
                leaf = b""
            if leaf != stored:
                self._add("the event isn't the one that the log took in", index, event)
            frontier.append(stored)

    async def _tiles(self, first: int) -> dict[int, bytes]:
        rows = await self.snapshot.select(
            "SELECT tile, hashes FROM log_tiles WHERE level = 0 AND tile >= $1 AND tile < $2",
            (first, first + _TILES_A_PAGE),
        )
        return {tile: bytes(hashes) for tile, hashes in rows}

    def _add(self, problem: str, index: int | None, event: EventRow | None = None) -> None:
        stream, version, topic = event[:3] if event is not None else (DEPLOYMENT_STREAM, None, None)
        self.findings.append(
            Finding(rule="log", stream=stream, version=version, topic=topic, index=index, problem=problem)
        )
