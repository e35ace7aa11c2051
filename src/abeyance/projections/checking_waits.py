"""The part of `projections check` that is about the list of open waits, as of its position in the snapshot.

A run's rows must be what its events up to that position make of them. Only runs that have rows, or have open
waits, are looked at twice.
"""

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple
from uuid import UUID

from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.run import RunState, begin, evolve
from abeyance.journal.store import JournalSnapshot
from abeyance.projections.drift import Drift, differing
from abeyance.projections.read_models import to_uuid
from abeyance.projections.recomputed import Recomputed, events_of
from abeyance.projections.wait_view import describe, kind_of
from abeyance.world import to_micros

MODEL = "waits_list"
_PLACE = "SELECT generation, position FROM read_models WHERE name = 'waits' AND live"
_ROWS = """
SELECT run_id, key, workspace, project, kind, op, opened, since, due, node, tool, tool_version, name, line
FROM waits_list WHERE generation = $1 AND run_id >= $2 AND run_id <= $3
"""
_COUNT = "SELECT count(*) FROM waits_list WHERE generation = $1"


class _Row(NamedTuple):
    """A row of the list, without its run and its key."""

    workspace: str
    project: str
    kind: str
    op: str
    opened: int
    since: int | None
    due: int | None
    node: str
    tool: str
    tool_version: str
    name: str
    line: str


class WaitsCheck:
    """See the module."""

    def __init__(self, snapshot: JournalSnapshot, codec: EventCodec) -> None:
        self._snapshot = snapshot
        self._codec = codec
        self._generation = 0
        self._position: int | None = None
        self._rows: dict[UUID, dict[str, _Row]] = {}
        self._seen = 0

    async def begin(self) -> None:
        """Find the live generation; a list that was never followed isn't compared."""
        for generation, position in await self._snapshot.select(_PLACE):
            self._generation, self._position = generation, position

    async def load(self, first: UUID, last: UUID) -> None:
        """Load the rows of the runs from `first` to `last`."""
        self._rows = {}
        if self._position is None:
            return
        for row in await self._snapshot.select(_ROWS, (self._generation, first, last)):
            self._rows.setdefault(to_uuid(row[0]), {})[row[1]] = _Row(*row[2:])

    async def compare(self, stream: UUID, recomputed: Recomputed) -> AsyncIterator[Drift]:
        """Compare one run's rows with its events."""
        stored, state = self._rows.get(stream, {}), recomputed.state
        self._seen += len(stored)
        if self._position is None or not (stored or (state is not None and state.waits)):
            return
        expected = {} if state is None else await self._expected(state, self._position)
        for key in sorted(stored.keys() | expected.keys()):
            for found in differing(MODEL, stream, key, stored.get(key), expected.get(key), _Row._fields):
                yield found

    async def stray(self) -> AsyncIterator[Drift]:
        """Rows of runs that aren't there."""
        if self._position is None:
            return
        ((stored,),) = await self._snapshot.select(_COUNT, (self._generation,))
        if stored != self._seen:
            nobody = UUID(int=0)
            yield Drift(MODEL, nobody, "of runs that aren't there", "", f"{stored - self._seen} rows", "none")

    async def _expected(self, state: RunState, position: int) -> dict[str, _Row]:
        upto = await self._applied(state, position)
        folded = _Folded()
        async for row in events_of(self._snapshot, state.run_id):
            if row.version > upto:
                break
            folded.take(self._codec.open(row))
        return dict(folded.rows())

    async def _applied(self, state: RunState, position: int) -> int:
        """The newest version of the run that the list has seen."""
        low, high = 0, state.version
        while low < high:
            middle = (low + high + 1) // 2
            indexes = await self._snapshot.sealed_indexes(state.run_id, [middle])
            if indexes.get(middle, position) < position:
                low = middle
            else:
                high = middle - 1
        return low


class _Folded:
    """A run's open waits after some of its events, each with the events that say what it is."""

    def __init__(self) -> None:
        self._state: RunState | None = None
        self._opening: dict[str, Recorded] = {}
        self._pausing: dict[str, Recorded] = {}

    def take(self, recorded: Recorded) -> None:
        self._state = begin(recorded) if self._state is None else evolve(self._state, recorded)[0]
        for key, wait in self._state.waits.items():
            if wait.row.opened == recorded.version:
                self._opening[key] = recorded
                self._pausing.pop(key, None)
            if wait.row.paused == recorded.version:
                self._pausing[key] = recorded

    def rows(self) -> Iterator[tuple[str, _Row]]:
        if self._state is None:
            return
        started = self._state.started
        for key, wait in self._state.waits.items():
            opening, pausing = self._opening[key], self._pausing.get(key)
            said = describe(opening.event, None if pausing is None else pausing.event)
            kind = kind_of(key)
            came = pausing if kind == "token" else opening
            yield (
                key,
                _Row(
                    started.workspace,
                    started.project,
                    kind,
                    wait.op,
                    wait.row.opened,
                    None if came is None else to_micros(came.at),
                    wait.row.due,
                    said.node or "",
                    said.tool_id or "",
                    said.tool_version or "",
                    said.name or "",
                    said.line or "",
                ),
            )
