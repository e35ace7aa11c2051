"""What the journal says that a run's rows must be: recomputed from its events, one by one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

from abeyance.errors import HistoryDamagedError, UnknownEventError
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec
from abeyance.journal.run import RunState, begin, evolve
from abeyance.journal.store import EventRow, JournalSnapshot, LinkRow, WaitRow

_PAGE = 500


@dataclass(slots=True)
class Recomputed:
    """A stream after all its events. `state` is `None` if it isn't a run's. `damage` says why it can't be
    recomputed to its end, which `versions` events come before. `status_at_mark` is the run's status after
    the event that the caller asked for.
    """

    versions: int = 0
    state: RunState | None = None
    waits: dict[int, WaitRow] = field(default_factory=dict)
    links: dict[bytes, LinkRow] = field(default_factory=dict)
    status_at_mark: str | None = None
    damage: str | None = None


async def recompute(
    snapshot: JournalSnapshot, codec: EventCodec, stream: UUID, *, mark: int | None = None
) -> Recomputed:
    """Fold a stream's events. Memory grows with the run's waits and links, not with its events."""
    found = Recomputed()
    try:
        async for row in events_of(snapshot, stream):
            _take(found, row, codec)
            found.versions = row.version
            if found.state is not None and row.version == mark:
                found.status_at_mark = found.state.status
    except (HistoryDamagedError, UnknownEventError) as error:
        found.damage = str(error)
    return found


async def events_of(snapshot: JournalSnapshot, stream: UUID) -> AsyncIterator[EventRow]:
    """All events of a stream, in pages."""
    after = 0
    while rows := await snapshot.events(stream, after=after, limit=_PAGE):
        for row in rows:
            yield row
        after = rows[-1].version


def _take(found: Recomputed, row: EventRow, codec: EventCodec) -> None:
    recorded = codec.open(row)
    if found.state is not None:
        found.state, changes = evolve(found.state, recorded)
        found.waits.update((wait.opened, wait) for wait in changes.waits)
        for digest in changes.dead_links:
            found.links.pop(digest, None)
        found.links.update((link.digest, link) for link in changes.links)
    elif isinstance(recorded.event, e.Started):
        found.state = begin(recorded)
