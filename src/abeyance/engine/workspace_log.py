"""A workspace's stream as it is now, and what is appended to it: signed, and chained to its newest event."""

from collections.abc import Iterable
from dataclasses import dataclass

from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.batch import Desk
from abeyance.journal.envelope import Recorded
from abeyance.journal.events import Event
from abeyance.journal.store import EventRow, JournalStore
from abeyance.journal.tenant_events import WorkspaceCreated
from abeyance.journal.workspace_streams import workspace_stream

_PAGE = 500


@dataclass(frozen=True, slots=True)
class ReadLog:
    """The stream of `workspace`, of which `newest` is the newest event; `None`: it has none."""

    desk: Desk
    workspace: str
    newest: Recorded | None

    def sealed(self, events: Iterable[Event]) -> StreamAppend:
        """These events as the next of the stream, which begins with `workspace-created`."""
        stream, last, rows = workspace_stream(self.workspace), self.newest, []
        given = list(events)
        if last is None and not isinstance(given[0], WorkspaceCreated):
            given.insert(0, WorkspaceCreated(workspace=self.workspace))
        for event in given:
            now = self.desk.world.now()
            row, last = self.desk.codec.seal(
                event,
                stream=stream,
                version=1 if last is None else last.version + 1,
                prev=None if last is None else last.digest,
                at=now if last is None else max(now, last.at),
                signer=self.desk.signer,
            )
            rows.append(row)
        return StreamAppend(stream, 0 if self.newest is None else self.newest.version, rows)


class WorkspaceLog:
    """The streams of a deployment's workspaces; their newest events are kept, to read only what is new."""

    def __init__(self, journal: JournalStore, desk: Desk) -> None:
        self._journal = journal
        self._desk = desk
        self._newest: dict[str, Recorded] = {}

    async def read(self, workspace: str) -> ReadLog:
        """The workspace's stream now. Raises `StoreUnavailableError`, `HistoryDamagedError`."""
        known = self._newest.get(workspace)
        version, last = 0 if known is None else known.version, None
        while True:
            rows, _ = await self._journal.read_events(
                workspace_stream(workspace), after=version, limit=_PAGE, contents=False
            )
            if rows:
                version, last = rows[-1].version, rows[-1]
            if len(rows) < _PAGE:
                break
        if last is not None:
            known = self._newest[workspace] = self._checked(last)
        return ReadLog(self._desk, workspace, known)

    def _checked(self, row: EventRow) -> Recorded:
        return self._desk.codec.verify(row, self._desk.public_keys)
