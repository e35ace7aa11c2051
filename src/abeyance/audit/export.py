"""Exports: the whole log or a part of it as one file that is verified without the deployment.

What is exported is the log up to its newest checkpoint, in pages, so that memory doesn't grow with it. A
filtered export always holds the deployment's own stream too, whose entries say which keys count.
"""

import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from abeyance.audit.bundle import BundleWriter, proof_line, record_line, stub_line
from abeyance.audit.log import Head, Log, LogStore
from abeyance.audit.merkle import inclusion_proof
from abeyance.audit.tiles import HASH_BYTES, HEIGHT, WIDTH, subtrees_in
from abeyance.crypto.signing import Signer
from abeyance.errors import BadInputError, HistoryDamagedError, RunNotFoundError
from abeyance.journal.body import parse_body
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM, format_moment
from abeyance.journal.store import EventRow, JournalStore

_PAGE = 512
_NO_PURGE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which records to export besides the deployment's own: those of a run, or signed from `since` on and
    before `until` (UTC). Without any of them all are.
    """

    run: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def members(self) -> dict[str, str] | None:
        """As the bundle's first line and the record of the export say it; `None` for everything."""
        found = {}
        if self.run is not None:
            found["run"] = str(self.run)
        if self.since is not None:
            found["since"] = format_moment(self.since)
        if self.until is not None:
            found["until"] = format_moment(self.until)
        return found or None

    def takes(self, row: EventRow, at: str) -> bool:
        """Whether a record belongs to the export; `at` as its body has it."""
        if row.run_id == DEPLOYMENT_STREAM:
            return True
        if self.run is not None and row.run_id != self.run:
            return False
        if self.since is not None and at < format_moment(self.since):
            return False
        return self.until is None or at < format_moment(self.until)


class Exporter:
    """Writes bundles of one log. `signer` signs their ends: an events' key that the log certifies."""

    def __init__(self, log: Log, journal: JournalStore, codec: EventCodec, signer: Signer) -> None:
        self._log = log
        self._journal = journal
        self._codec = codec
        self._signer = signer

    async def head(self) -> Head:
        """The checkpoint that an export leads to. Raises `BadInputError` while there is none."""
        head = await self._log.head()
        if head.note is None:
            raise BadInputError("the log has no checkpoint yet: try again in a second")
        return head

    async def export(self, head: Head, wanted: Filter, created: datetime) -> AsyncIterator[bytes]:
        """The bundle in pieces of whole lines. Raises `RunNotFoundError` before the first one."""
        assert head.note is not None
        writer = BundleWriter(head.checkpoint, head.note, wanted.members)
        pieces = self._filtered(head.size, wanted) if wanted.members else self._whole(head.size)
        first = await anext(pieces)
        yield writer.begin(format_moment(created))
        yield writer.write(*first)
        async for piece in pieces:
            yield writer.write(*piece)
        yield writer.finish(self._signer)

    async def _whole(self, size: int) -> AsyncIterator[tuple[bytes, int]]:
        """Pieces, each with its number of lines."""
        for start in range(0, size, _PAGE):
            stop = min(start + _PAGE, size)
            rows = {
                each.sealed_index: each.event for each in await self._journal.read_sealed(start, stop - start)
            }
            lines = [
                self._record(index, rows[index]) if index in rows else await self._stub(index)
                for index in range(start, stop)
            ]
            yield b"".join(lines), len(lines)

    async def _filtered(self, size: int, wanted: Filter) -> AsyncIterator[tuple[bytes, int]]:
        found = False
        async for page in self._pages(size, wanted):
            tiles = await read_tiles_of(self._log.store, size, [index for index, _ in page])
            subtrees = subtrees_in(lambda level, number, tiles=tiles: tiles.get((level, number), b""))  # type: ignore[misc]
            lines = []
            for index, row in page:
                found = found or row.run_id == wanted.run
                lines += [self._record(index, row), proof_line(index, inclusion_proof(index, size, subtrees))]
            yield b"".join(lines), len(lines)
        if wanted.run is not None and not found:
            raise RunNotFoundError

    async def _pages(self, size: int, wanted: Filter) -> AsyncIterator[list[tuple[int, EventRow]]]:
        """The wanted records with their places, in the log's order."""
        if wanted.run is not None and wanted.since is None and wanted.until is None:
            places = [*await self._places(DEPLOYMENT_STREAM, size), *await self._places(wanted.run, size)]
            if places and all(row.run_id != wanted.run for _, row in places):
                raise RunNotFoundError
            yield sorted(places, key=lambda place: place[0])
            return
        for start in range(0, size, _PAGE):
            sealed = await self._journal.read_sealed(start, min(_PAGE, size - start))
            page = [
                (each.sealed_index, each.event)
                for each in sealed
                if wanted.takes(each.event, format_moment(parse_body(self._codec.plain(each.event)).at))
            ]
            if page:
                yield page

    async def _places(self, stream: UUID, size: int) -> list[tuple[int, EventRow]]:
        found: list[tuple[int, EventRow]] = []
        version = 0
        while True:
            rows, _ = await self._journal.read_events(stream, after=version, limit=_PAGE, contents=False)
            indexes = await self._journal.sealed_indexes(stream, [row.version for row in rows])
            found += [(indexes[row.version], row) for row in rows if indexes.get(row.version, size) < size]
            if len(rows) < _PAGE:
                return found
            version = rows[-1].version

    def _record(self, index: int, row: EventRow) -> bytes:
        try:
            return record_line(index, row, self._codec.plain(row))
        except HistoryDamagedError as error:
            raise HistoryDamagedError(
                f"record {index} can't be exported: {error.reason}; `abeyance audit verify` says more",
                where=error.where,
            ) from error

    async def _stub(self, index: int) -> bytes:
        hashes = await self._log.store.read_tile(0, index // WIDTH)
        start = index % WIDTH * HASH_BYTES
        return stub_line(index, hashes[start : start + HASH_BYTES], _NO_PURGE)


async def read_tiles_of(store: LogStore, size: int, indexes: Sequence[int]) -> dict[tuple[int, int], bytes]:
    """The tiles that proofs of these records in a tree of `size` are made from."""
    wanted = set[tuple[int, int]]()
    level = 0
    while size >> (HEIGHT * level):
        count = size >> (HEIGHT * level)
        wanted.add((level, (count - 1) // WIDTH))
        wanted |= {(level, (index >> (HEIGHT * level)) // WIDTH) for index in indexes}
        level += 1
    return {key: await store.read_tile(*key) for key in sorted(wanted)}


def encode_proof(proof: Sequence[bytes]) -> list[str]:
    """A proof's hashes in base64."""
    return [base64.b64encode(each).decode() for each in proof]
