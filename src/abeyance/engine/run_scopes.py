"""Where a run belongs and what it runs: read once, since it never changes."""

from collections import OrderedDict
from typing import NamedTuple
from uuid import UUID

from abeyance.engine.callers import Caller
from abeyance.errors import HistoryDamagedError, RunNotFoundError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM, Started
from abeyance.journal.store import JournalStore
from abeyance.journal.workspace_streams import workspace_stream

REMEMBERED = 10_000


class RunScope(NamedTuple):
    """A run's workspace and project, and the id of its definition; none if its first event is damaged."""

    workspace: str
    project: str
    definition: str


class RunScopes:
    """The scopes of runs, of which the newest asked for are remembered."""

    def __init__(self, store: JournalStore, codec: EventCodec, *, remembered: int = REMEMBERED) -> None:
        self._store = store
        self._codec = codec
        self._remembered = remembered
        self._known: OrderedDict[UUID, RunScope] = OrderedDict()

    async def of(self, run_id: UUID) -> RunScope:
        """The run's scope. Raises `RunNotFoundError`, `StoreUnavailableError`."""
        found = self._known.get(run_id)
        if found is not None:
            self._known.move_to_end(run_id)
            return found
        record = await self._store.read_record(run_id)
        if record is None:
            raise RunNotFoundError
        control = record.control
        try:
            event = self._codec.open(record.first).event
        except HistoryDamagedError:
            event = None
        definition = event.definition.id if isinstance(event, Started) else ""
        scope = RunScope(control.workspace, control.project, definition)
        self._known[run_id] = scope
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)
        return scope

    async def sees(self, caller: Caller, stream: UUID) -> bool:
        """Whether the events of a stream are there for the caller."""
        if stream == DEPLOYMENT_STREAM:
            return caller.everywhere
        if stream == workspace_stream(caller.workspace):
            return caller.sees(caller.workspace)
        try:
            scope = await self.of(stream)
        except RunNotFoundError:
            return False
        return caller.sees(scope.workspace, scope.project)
