"""The part of `projections check` that is about the list of runs, as of its position in the same snapshot.

The list may be behind the journal, never wrong: a row must be what the events up to its version make of it,
and the next event of its run must not have been applied by the position that the list claims.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

from abeyance.journal.envelope import EventCodec
from abeyance.journal.run import RunState
from abeyance.journal.store import JournalSnapshot
from abeyance.projections.drift import Drift, differing
from abeyance.projections.read_models import to_uuid
from abeyance.projections.recomputed import Recomputed, recompute
from abeyance.world import to_micros

_PLACE = "SELECT generation, position FROM read_models WHERE name = 'runs' AND live"
_ROWS = """
SELECT run_id, created, version, status, definition FROM runs_list
WHERE generation = $1 AND run_id > $2 ORDER BY run_id LIMIT $3
"""
_LABEL = """
SELECT 1 FROM runs_list_labels WHERE generation = $1 AND name = $2 AND value = $3 AND run_id = $4
"""
_COUNT_LABELS = "SELECT count(*) FROM runs_list_labels WHERE generation = $1"
_LABELS = """
SELECT name, value, run_id FROM runs_list_labels
WHERE generation = $1 AND (name, value, run_id) > ($2, $3, $4) ORDER BY name, value, run_id LIMIT $5
"""
_PAGE = 200
_FIRST = UUID(int=0)


class ListRow(NamedTuple):
    """A row of the list of runs."""

    run_id: UUID
    created: int
    version: int
    status: str
    definition: str


class ListCheck:
    """See the module. `rows` are those of the page that was loaded last, by run."""

    def __init__(self, snapshot: JournalSnapshot, codec: EventCodec) -> None:
        self._snapshot = snapshot
        self._codec = codec
        self._generation = 0
        self._labels = 0
        self.position: int | None = None
        self.rows: dict[UUID, ListRow] = {}

    async def begin(self) -> None:
        """Find the live generation; a list that was never followed isn't compared."""
        for generation, position in await self._snapshot.select(_PLACE):
            self._generation, self.position = generation, position

    async def load(self, after: UUID | None, limit: int) -> list[UUID]:
        """Load the next rows, and return whose they are."""
        if self.position is None:
            return []
        values = (self._generation, _FIRST if after is None else after, limit)
        rows = [ListRow(to_uuid(row[0]), *row[1:]) for row in await self._snapshot.select(_ROWS, values)]
        self.rows = {row.run_id: row for row in rows}
        return list(self.rows)

    async def compare(self, stream: UUID, recomputed: Recomputed) -> AsyncIterator[Drift]:
        """Compare one run's row with its events."""
        if self.position is None:
            return
        row, state = self.rows.get(stream), recomputed.state
        expected = None if state is None else _newest(state)
        if expected is not None and await self._lags(row, expected):
            if row is None:
                return
            status = recomputed.status_at_mark or expected.status
            expected = expected._replace(version=row.version, status=status)
        for found in differing("runs", stream, "", row, expected, ListRow._fields):
            yield found
        if row is not None and state is not None:
            async for found in self._compare_labels(stream, state):
                yield found

    async def _lags(self, row: ListRow | None, newest: ListRow) -> bool:
        """Whether the row is behind only because the list is: its run's next event wasn't due yet."""
        following = 1 if row is None else row.version + 1
        if self.position is None or following > newest.version:
            return False
        indexes = await self._snapshot.sealed_indexes(newest.run_id, [following])
        return indexes.get(following, self.position) >= self.position

    async def _compare_labels(self, stream: UUID, state: RunState) -> AsyncIterator[Drift]:
        for name, value in (state.started.labels or {}).items():
            if await self._snapshot.select(_LABEL, (self._generation, name, value, stream)):
                self._labels += 1
            else:
                yield Drift("runs", stream, f"label {name}", "", "no row", "a row")

    async def stray_labels(self) -> AsyncIterator[Drift]:
        """Labels that no event gave; looked for only if there are more than events gave."""
        if self.position is None:
            return
        ((stored,),) = await self._snapshot.select(_COUNT_LABELS, (self._generation,))
        if stored == self._labels:
            return
        last: tuple[object, ...] = ("", "", _FIRST)
        while page := await self._snapshot.select(_LABELS, (self._generation, *last, _PAGE)):
            for name, value, run_id in page:
                if not await self._has_label(to_uuid(run_id), name, value):
                    yield Drift("runs", to_uuid(run_id), f"label {name}", "", "a row", "no row")
            last = (*page[-1][:2], to_uuid(page[-1][2]))

    async def _has_label(self, run_id: UUID, name: str, value: str) -> bool:
        recomputed = await recompute(self._snapshot, self._codec, run_id)
        if recomputed.damage is not None:
            return True
        return recomputed.state is not None and (recomputed.state.started.labels or {}).get(name) == value


def _newest(state: RunState) -> ListRow:
    """The row after the run's newest event."""
    created = to_micros(state.created_at)
    return ListRow(state.run_id, created, state.version, state.status, state.started.definition.id)
