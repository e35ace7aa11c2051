"""Are the states of workspaces and projects what the workspaces' streams say? Part of `projections check`."""

from collections.abc import AsyncIterator

from abeyance.journal import tenant_events as e
from abeyance.journal.envelope import EventCodec
from abeyance.journal.store import JournalSnapshot
from abeyance.journal.tenancy import WHOLE
from abeyance.journal.workspace_streams import workspace_stream
from abeyance.projections.drift import Drift

_PAGE = 200
_NAMES = """
SELECT workspace FROM (SELECT workspace FROM workspaces UNION SELECT workspace FROM projects) AS named
WHERE workspace > $1 ORDER BY workspace LIMIT $2
"""
_STATES = """
SELECT '', state FROM workspaces WHERE workspace = $1
UNION ALL SELECT project, state FROM projects WHERE workspace = $1
"""
# Without an event that says otherwise it has no row.
_DEFAULT = "default"


async def tenant_drift(snapshot: JournalSnapshot, codec: EventCodec) -> AsyncIterator[Drift]:
    """Every state that differs, of workspaces that have a row or whose projects have one."""
    after = ""
    while names := [str(name) for (name,) in await snapshot.select(_NAMES, (after, _PAGE))]:
        for name in names:
            stored, told = await _stored(snapshot, name), await _told(snapshot, codec, name)
            for project in sorted(stored.keys() | told.keys()):
                found, expected = stored.get(project, "no row"), told.get(project, "no row")
                if found != expected:
                    model = "workspaces" if project == WHOLE else "projects"
                    key = name if project == WHOLE else f"{name}/{project}"
                    yield Drift(model, workspace_stream(name), key, "state", found, expected)
        after = names[-1]


async def _stored(snapshot: JournalSnapshot, workspace: str) -> dict[str, str]:
    rows = await snapshot.select(_STATES, (workspace,))
    return {str(project): str(state) for project, state in rows}


async def _told(snapshot: JournalSnapshot, codec: EventCodec, workspace: str) -> dict[str, str]:
    """The states after the whole stream, by project."""
    told: dict[str, str] = {}
    version, stream = 0, workspace_stream(workspace)
    while rows := await snapshot.events(stream, after=version, limit=_PAGE):
        version = rows[-1].version
        for row in rows:
            match codec.open(row).event:
                case e.WorkspaceCreated() if workspace != _DEFAULT:
                    told[WHOLE] = "active"
                case e.WorkspaceSuspended():
                    told[WHOLE] = "suspended"
                case e.WorkspaceRestored():
                    told[WHOLE] = "active"
                case e.WorkspaceClosing():
                    told[WHOLE] = "closing"
                case e.WorkspaceClosed():
                    told[WHOLE] = "closed"
                case e.ProjectCreated(project=project) | e.ProjectRestored(project=project):
                    told[project] = "active"
                case e.ProjectSuspended(project=project):
                    told[project] = "suspended"
                case _:
                    pass
    return told
