"""The events of workspaces and projects, in the workspace's stream. `actor` is who did it."""

from abeyance.journal.event_parts import Event, Text


class WorkspaceCreated(Event):
    """The first event of a workspace's stream. Without an actor the deployment made it itself."""

    topic = "workspace-created"
    actor: Text | None = None
    workspace: Text


class WorkspaceSuspended(Event):
    """Nothing goes on in the workspace: its unfinished runs are cancelled, none begins."""

    topic = "workspace-suspended"
    actor: Text | None = None
    workspace: Text


class WorkspaceRestored(Event):
    """Runs may be started again."""

    topic = "workspace-restored"
    actor: Text | None = None
    workspace: Text


class WorkspaceClosing(Event):
    """The workspace is suspended for good."""

    topic = "workspace-closing"
    actor: Text | None = None
    workspace: Text


class WorkspaceClosed(Event):
    """The last run of a closing workspace is cancelled."""

    topic = "workspace-closed"
    actor: Text | None = None
    workspace: Text


class ProjectCreated(Event):
    """The workspace has another project."""

    topic = "project-created"
    actor: Text | None = None
    project: Text
    workspace: Text


class ProjectSuspended(Event):
    """Nothing goes on in the project: its unfinished runs are cancelled, none begins."""

    topic = "project-suspended"
    actor: Text | None = None
    project: Text
    workspace: Text


class ProjectRestored(Event):
    """Runs may be started in the project again."""

    topic = "project-restored"
    actor: Text | None = None
    project: Text
    workspace: Text


TENANT_EVENTS: tuple[type[Event], ...] = (
    WorkspaceCreated, WorkspaceSuspended, WorkspaceRestored, WorkspaceClosing, WorkspaceClosed,
    ProjectCreated, ProjectSuspended, ProjectRestored,
)  # fmt: skip
