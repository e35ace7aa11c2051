"""The shapes of workspaces and projects on the wire."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from abeyance.engine.tenants import NAME
from abeyance.http.answers import PageOf, Time
from abeyance.http.schemas import Body, Cursor, Limit, Wire

TenantName = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
_DEFAULT_HAS_NONE = "Left out for a `default` that nobody has changed."


class CreateWorkspaceBody(Body):
    """Makes a workspace. Its name stays in the journal for ever: put no personal data there."""

    id: TenantName = Field(description="1 to 63 of a-z, 0-9, `.`, `_` and `-`.")


class CreateProjectBody(Body):
    """Makes a project. Its name stays in the journal for ever: put no personal data there."""

    id: TenantName = Field(description="1 to 63 of a-z, 0-9, `.`, `_` and `-`.")


class TenantsQuery(Wire):
    """Which page."""

    limit: Limit = 50
    cursor: Cursor | None = Field(default=None, description="The `nextCursor` of the page before.")


class WorkspaceAnswer(Wire):
    """A workspace. `closing`: its last runs are being cancelled; `closed`: they are."""

    id: str
    state: Literal["active", "suspended", "closing", "closed"]
    created_at: Time | None = Field(default=None, description=_DEFAULT_HAS_NONE)
    updated_at: Time | None = Field(default=None, description=_DEFAULT_HAS_NONE)


class ProjectAnswer(Wire):
    """A project. What its workspace's state forbids, an active project's runs may not do either."""

    id: str
    workspace_id: str
    state: Literal["active", "suspended"]
    created_at: Time | None = Field(default=None, description=_DEFAULT_HAS_NONE)
    updated_at: Time | None = Field(default=None, description=_DEFAULT_HAS_NONE)


class WorkspacesPage(PageOf):
    """A page of workspaces, by name."""

    data: list[WorkspaceAnswer]


class ProjectsPage(PageOf):
    """A page of projects, by name."""

    data: list[ProjectAnswer]
