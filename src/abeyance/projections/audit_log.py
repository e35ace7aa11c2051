"""The audit log: every event in the order of the whole journal.

It has no table of its own. The sealed index names the events, and the events are read where they are, so that
nothing is copied that could differ or that an erasure would have to reach. A filter by run reads that run's
events; a filter by kind alone reads the index from where the page begins, so one request looks at a bounded
number of events: its page may be short, and its cursor says where to go on.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from abeyance.crypto.sealing import RunKey
from abeyance.errors import ContentErasedError, VerificationError
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.run import parse_token_id
from abeyance.journal.store import JournalStore, SealedEvent, StoredWait
from abeyance.journal.vault import Vault
from abeyance.projections.journal_view import journal_entry, node_of, wait_of
from abeyance.projections.views import AuditRecord, Page

LOOKED_AT = 20_000
_PAGE = 256

# Whether the events of a stream are there for who asks.
Sees = Callable[[UUID], Awaitable[bool]]
# The next events to look at, in sealed order; `None` at the end.
Search = Callable[[], Awaitable[list[SealedEvent] | None]]


class RunKeys(Protocol):
    """The runs' keys, as far as they still exist."""

    async def get(self, key_id: int) -> RunKey:
        """The key with this id. Raises `ContentErasedError` if it was destroyed."""


class Found(NamedTuple):
    """Sealed events that fit, and the index that the next page begins after; `None` at the end."""

    events: list[SealedEvent]
    after: int | None


class AuditLog:
    """Queries of the audit log. `looked_at` is how many events one request reads at most."""

    def __init__(
        self,
        journal: JournalStore,
        *,
        codec: EventCodec,
        vault: Vault,
        keys: RunKeys,
        looked_at: int = LOOKED_AT,
    ) -> None:
        self._journal = journal
        self._codec = codec
        self._vault = vault
        self._keys = keys
        self._looked_at = looked_at

    async def find(
        self,
        *,
        after: int = -1,
        limit: int = 100,
        run_id: UUID | None = None,
        kind: str | None = None,
        sees: Sees | None = None,
    ) -> Page[AuditRecord]:
        """A page of sealed events after index `after`; of all streams, or of those that `sees` says yes to.
        Raises `HistoryDamagedError` at a damaged one.
        """
        search = self._search_all(after) if run_id is None else self._search_run(after, run_id)
        found = await self._take(search, limit, kind, sees)
        waits: dict[tuple[UUID, str], StoredWait | None] = {}
        records = [await self._record(sealed, waits) for sealed in found.events]
        return Page(data=tuple(records), next_cursor=None if found.after is None else str(found.after))

    async def _take(self, search: Search, limit: int, kind: str | None, sees: Sees | None) -> Found:
        """Read on until there are `limit` events that fit, or the search has an end."""
        fitting: list[SealedEvent] = []
        looked_at, last = 0, None
        while looked_at < self._looked_at:
            page = await search()
            if page is None:
                return Found(fitting, None)
            for sealed in page:
                if len(fitting) == limit:
                    return Found(fitting, fitting[-1].sealed_index)
                fits = kind is None or sealed.event.topic == kind
                if fits and (sees is None or await sees(sealed.event.run_id)):
                    fitting.append(sealed)
                looked_at += 1
                last = sealed.sealed_index
        return Found(fitting, last)

    def _search_all(self, after: int) -> Search:
        start = after + 1

        async def search() -> list[SealedEvent] | None:
            nonlocal start
            page = await self._journal.read_sealed(start, _PAGE)
            if page:
                start = page[-1].sealed_index + 1
            return page or None

        return search

    def _search_run(self, after: int, run_id: UUID) -> Search:
        version = 0

        async def search() -> list[SealedEvent] | None:
            nonlocal version
            while True:
                rows, _ = await self._journal.read_events(run_id, after=version, limit=_PAGE, contents=False)
                if not rows:
                    return None
                version = rows[-1].version
                newest = await self._journal.sealed_indexes(run_id, [version])
                if newest.get(version, after + 1) <= after:
                    continue
                indexes = await self._journal.sealed_indexes(run_id, [row.version for row in rows])
                page = [SealedEvent(indexes[row.version], row) for row in rows if row.version in indexes]
                page = [sealed for sealed in page if sealed.sealed_index > after]
                if page:
                    return page

        return search

    async def _record(
        self, sealed: SealedEvent, waits: dict[tuple[UUID, str], StoredWait | None]
    ) -> AuditRecord:
        recorded = self._codec.open(sealed.event)
        node, answer = node_of(recorded.event), None
        wait = wait_of(recorded.event)
        if node is None and wait is not None:
            key = (recorded.stream, wait)
            if key not in waits:
                waits[key] = await self._find_wait(*key)
            stored = waits[key]
            if stored is not None:
                node, answer = self._node(stored), await self._answer(recorded, stored)
        entry = journal_entry(sealed.event, recorded, codec=self._codec, node=node)
        return AuditRecord(index=sealed.sealed_index, run_id=recorded.stream, entry=entry, answer=answer)

    async def _find_wait(self, run_id: UUID, wait: str) -> StoredWait | None:
        named = parse_token_id(wait)
        return None if named is None else await self._journal.find_wait(run_id, *named)

    def _node(self, stored: StoredWait) -> str | None:
        return node_of(self._codec.open(stored.opening).event)

    async def _answer(self, recorded: Recorded, stored: StoredWait) -> Mapping[str, object] | None:
        """Exact size and SHA-256 of an answer that still exists; `{"damaged": true}` if it was changed."""
        ref: e.ContentRef | None = getattr(recorded.event, "answer", None)
        version = stored.wait.answer
        if ref is None or stored.answer_blob is None or version is None:
            return None
        try:
            key = await self._keys.get(stored.control.key_id)
            content = self._vault.open(stored.answer_blob, ref, key, run_id=recorded.stream, version=version)
        except ContentErasedError:
            return None
        except VerificationError:
            return {"damaged": True}
        digest = hashlib.sha256(content.canonical).hexdigest()
        return {"size": len(content.canonical), "sha256": digest}
