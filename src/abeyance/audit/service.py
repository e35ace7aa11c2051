"""What the outside may ask of the log: its checkpoint and tiles, a record's proof, exports."""

import re
from collections.abc import AsyncIterator

from abeyance.audit.bundle import tlog_proof
from abeyance.audit.export import Exporter, Filter, read_tiles_of
from abeyance.audit.log import Log
from abeyance.audit.merkle import inclusion_proof
from abeyance.audit.recording import DeploymentRecorder
from abeyance.audit.tiles import HASH_BYTES, WIDTH, exists, parse_path, subtrees_in
from abeyance.errors import NotFoundError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import Exported
from abeyance.journal.store import JournalStore
from abeyance.world import World

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_ENTRIES = "entries/"
_TILES_A_SEARCH = 64


class AuditService:
    """The log of one deployment, to be read by anybody who may."""

    def __init__(
        self,
        log: Log,
        exporter: Exporter,
        recorder: DeploymentRecorder,
        journal: JournalStore,
        codec: EventCodec,
        world: World,
    ) -> None:
        self._log = log
        self._exporter = exporter
        self._recorder = recorder
        self._journal = journal
        self._codec = codec
        self._world = world

    async def checkpoint(self) -> str:
        """The newest checkpoint, a signed note. Raises `NotFoundError` while there is none."""
        head = await self._log.head()
        if head.note is None:
            raise NotFoundError("the log has no checkpoint yet")
        return head.note

    async def tile(self, path: str) -> bytes:
        """A tile of hashes by its path, `<level>/<number>[.p/<width>]`, or of entries, `entries/<number>…`:
        as C2SP tlog-tiles v0.1.0 has them. Raises `NotFoundError` for what the newest checkpoint lacks.
        """
        head = await self._log.head()
        entries = path.startswith(_ENTRIES)
        tile = parse_path(f"0/{path.removeprefix(_ENTRIES)}" if entries else path)
        if tile is None or not exists(tile, head.size):
            raise NotFoundError("the log has no such tile")
        if entries:
            return await self._entries(tile.number * WIDTH, tile.width)
        hashes = await self._log.store.read_tile(tile.level, tile.number)
        return hashes[: tile.width * HASH_BYTES]

    async def _entries(self, start: int, count: int) -> bytes:
        bodies = [self._codec.plain(each.event) for each in await self._journal.read_sealed(start, count)]
        if len(bodies) != count:
            raise NotFoundError("records of this tile were purged")
        return b"".join(len(body).to_bytes(2) + body for body in bodies)

    async def proof(self, record: str) -> str:
        """A record's proof (C2SP tlog-proof v1), by its index or its hash. Raises `NotFoundError`."""
        head = await self._log.head()
        index = await self._find(record, head.size)
        if head.note is None or index is None or index >= head.size:
            raise NotFoundError("the newest checkpoint has no such record")
        tiles = await read_tiles_of(self._log.store, head.size, [index])
        subtrees = subtrees_in(lambda level, number: tiles.get((level, number), b""))
        return tlog_proof(index, inclusion_proof(index, head.size, subtrees), head.note)

    async def _find(self, record: str, size: int) -> int | None:
        """The record's index. A hash is looked for from the newest tile on: 4,000 tiles hold a million."""
        if _INDEX.fullmatch(record):
            return int(record)
        if not _HASH.fullmatch(record):
            return None
        wanted = bytes.fromhex(record)
        for last in range((size + WIDTH - 1) // WIDTH, 0, -_TILES_A_SEARCH):
            first = max(0, last - _TILES_A_SEARCH)
            for number, hashes in enumerate(await self._log.store.read_tiles(0, first, last - first), first):
                place = hashes.find(wanted)
                while place % HASH_BYTES and place != -1:
                    place = hashes.find(wanted, place + 1)
                if place != -1:
                    return number * WIDTH + place // HASH_BYTES
        return None

    async def export(self, wanted: Filter, actor: str | None) -> AsyncIterator[bytes]:
        """A bundle, in pieces. That it is handed out is recorded first; if that can't be, nothing is.

        Raises `RunNotFoundError`, `BadInputError` while there is no checkpoint, `StoreUnavailableError`.
        """
        head = await self._exporter.head()
        pieces = self._exporter.export(head, wanted, self._world.now())
        first = await anext(pieces)
        await self._recorder.record(
            Exported(
                actor=actor,
                run=None if wanted.run is None else str(wanted.run),
                since=wanted.since,
                size=head.size,
                until=wanted.until,
            )
        )
        return _chained(first, pieces)


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
