"""One page of a run's journal: read from where it begins, whatever the length of the history before it."""

from dataclasses import replace
from typing import cast
from uuid import UUID

from abeyance.crypto.sealing import RunKey
from abeyance.errors import RunNotFoundError
from abeyance.journal.batch import Desk
from abeyance.journal.events import CallStarted
from abeyance.journal.run import parse_token_id
from abeyance.journal.store import Control, JournalStore, StoredRun
from abeyance.projections.journal_view import journal_entries
from abeyance.projections.views import JournalEntry, Page


async def journal_page(
    store: JournalStore, desk: Desk, control: Control, key: RunKey | None, *, after: int, limit: int
) -> Page[JournalEntry]:
    """The `limit` entries after version `after`; with a key, those whose content still exists show it."""
    rows, blobs = await store.read_events(
        control.run_id, after=after, limit=limit + 1, contents=key is not None
    )
    stored = StoredRun(control, rows[:limit], blobs)
    entries = list(journal_entries(stored, codec=desk.codec, vault=desk.vault, key=key))
    nodes: dict[str, str] = {}
    for index, entry in enumerate(entries):
        # An event that names only its wait belongs to the call that opened it, on an earlier page.
        wait = entry.payload.get("wait") if entry.node is None else None
        if isinstance(wait, str):
            if wait not in nodes:
                nodes[wait] = await _operation_of(store, desk, control.run_id, wait)
            entries[index] = replace(entry, node=nodes[wait])
    return Page(data=tuple(entries), next_cursor=str(rows[limit - 1].version) if len(rows) > limit else None)


async def _operation_of(store: JournalStore, desk: Desk, run_id: UUID, wait: str) -> str:
    named = parse_token_id(wait)
    stored = None if named is None else await store.find_wait(run_id, *named)
    if stored is None:
        raise RunNotFoundError  # erased since the page was read
    return cast(CallStarted, desk.codec.open(stored.opening).event).op
