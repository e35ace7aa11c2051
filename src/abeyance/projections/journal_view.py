"""A run's journal as readers see it: every event with what was signed.

`payload` is the signed `data` as it stands in the body. `node` is the event's operation; an event that knows
only its wait token has the operation of the call that made the token.
"""

import json
from collections.abc import Iterator

from abeyance.crypto.sealing import RunKey
from abeyance.journal import events as e
from abeyance.journal.body import parse_body
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.store import EventRow, StoredRun
from abeyance.journal.vault import Vault
from abeyance.projections.views import JournalEntry


def journal_entries(
    stored: StoredRun, *, codec: EventCodec, vault: Vault, key: RunKey | None
) -> Iterator[JournalEntry]:
    """The entries of a history from version 1 on. With a key, those whose content still exists show it.

    Raises `HistoryDamagedError` or `UnknownEventError` at an event that can't be read.
    """
    run_id = stored.control.run_id
    nodes: dict[str, str] = {}
    for row in stored.events:
        recorded = codec.open(row)
        if isinstance(recorded.event, e.CallStarted) and recorded.event.wait is not None:
            nodes[recorded.event.wait] = recorded.event.op
        ref, blob, content = e.content_ref(recorded.event), stored.contents.get(row.version), None
        if key is not None and ref is not None and blob is not None:
            content = vault.open(blob, ref, key, run_id=run_id, version=row.version).canonical
        node = node_of(recorded.event) or nodes.get(wait_of(recorded.event) or "")
        yield journal_entry(row, recorded, codec=codec, node=node, content=content)


def journal_entry(
    row: EventRow, recorded: Recorded, *, codec: EventCodec, node: str | None, content: bytes | None = None
) -> JournalEntry:
    """The entry of one event, as `codec.open(row)` has read it."""
    return JournalEntry(
        sequence=recorded.version,
        kind=recorded.topic,
        timestamp=recorded.at,
        node=node,
        payload=json.loads(parse_body(codec.plain(row)).data),
        digest=recorded.digest.hex(),
        kid=recorded.kid.hex(),
        content=content,
    )


def node_of(event: e.Event) -> str | None:
    """The operation that an event itself names; of a run's failure the step it failed in."""
    named: str | None = getattr(event, "op", None)
    return event.node if isinstance(event, e.Failed) else named


def wait_of(event: e.Event) -> str | None:
    """The wait token that an event without an operation names."""
    named: str | None = getattr(event, "wait", None)
    return named
