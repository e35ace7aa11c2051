"""The operations on workspaces and projects."""

from dataclasses import replace
from datetime import UTC, datetime

from abeyance import errors
from abeyance.engine.tenants import TenantView
from abeyance.http import tenants_schemas as shapes
from abeyance.http.operations.model import Answer, Operation
from abeyance.http.render import page
from abeyance.http.resources.tenants import render_tenant
from abeyance.http.schemas import NoBody, Wire
from abeyance.projections.views import Page

_MADE = datetime(2026, 10, 25, 9, tzinfo=UTC)
_CHANGED = datetime(2026, 11, 2, 16, 30, tzinfo=UTC)
_WORKSPACE = TenantView(workspace="shop", project=None, state="active", created_at=_MADE, updated_at=_MADE)
_PROJECT = replace(_WORKSPACE, project="web")
_DEFAULT = TenantView(workspace="default", project=None, state="active", created_at=None, updated_at=None)
_DEFAULT_PROJECT = replace(_DEFAULT, workspace="shop", project="default")
_NO_BODY = "Send no body, or `{}`."
_STOPS = (
    "From the reply on no run begins there, none is gone on with, and links and `resume` refuse answers, in "
    "every process. Then its unfinished runs are cancelled, waiting ones included."
)
_OF_WORKSPACE = "/v1/workspaces/{workspace}"
_OF_PROJECT = f"{_OF_WORKSPACE}/projects/{{project}}"


def _changed(view: TenantView, state: str, says: str, model: type[Wire]) -> tuple[Answer, ...]:
    example = render_tenant(replace(view, state=state, updated_at=_CHANGED))
    return (Answer(status=200, says=says, model=model, example=example),)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/workspaces",
        name="createWorkspace",
        idempotent=True,
        summary="Make a workspace",
        description="With the deployment's key. The name stays in the journal for ever.",
        body=shapes.CreateWorkspaceBody,
        body_example={"id": "shop"},
        answers=(
            Answer(
                status=201,
                says="The workspace.",
                model=shapes.WorkspaceAnswer,
                example=render_tenant(_WORKSPACE),
            ),
        ),
        refusals=(errors.UnknownFieldError, errors.TenantStateError),
    ),
    Operation(
        method="GET",
        path="/v1/workspaces",
        name="listWorkspaces",
        summary="List workspaces, by name",
        description="With the deployment's key.",
        query=shapes.TenantsQuery,
        answers=(
            Answer(
                status=200,
                says="A page of workspaces.",
                model=shapes.WorkspacesPage,
                example=page(Page(data=(_DEFAULT, _WORKSPACE), next_cursor=None), render_tenant),
            ),
        ),
        refusals=(errors.InvalidCursorError,),
    ),
    Operation(
        method="GET",
        path=_OF_WORKSPACE,
        name="getWorkspace",
        summary="Get a workspace",
        description="Its state as it is now.",
        answers=(
            Answer(
                status=200,
                says="The workspace.",
                model=shapes.WorkspaceAnswer,
                example=render_tenant(_WORKSPACE),
            ),
        ),
        refusals=(errors.WorkspaceNotFoundError,),
    ),
    Operation(
        method="POST",
        path=f"{_OF_WORKSPACE}/suspend",
        name="suspendWorkspace",
        idempotent=True,
        summary="Suspend a workspace",
        description=f"With the deployment's key. {_STOPS} {_NO_BODY}",
        body=NoBody,
        body_example={},
        answers=_changed(_WORKSPACE, "suspended", "The workspace after it.", shapes.WorkspaceAnswer),
        refusals=(errors.WorkspaceNotFoundError, errors.TenantStateError, errors.UnknownFieldError),
    ),
    Operation(
        method="POST",
        path=f"{_OF_WORKSPACE}/restore",
        name="restoreWorkspace",
        idempotent=True,
        summary="Restore a suspended workspace",
        description=(
            "With the deployment's key. Runs may begin again. Those that were cancelled stay so: their links "
            "answer `409 wait-token-closed`, `cancelled`. Waits up to 30 s until all of them are cancelled. "
            f"{_NO_BODY}"
        ),
        body=NoBody,
        body_example={},
        answers=_changed(_WORKSPACE, "active", "The workspace after it.", shapes.WorkspaceAnswer),
        refusals=(
            errors.WorkspaceNotFoundError,
            errors.TenantStateError,
            errors.TenantDrainingError,
            errors.UnknownFieldError,
        ),
    ),
    Operation(
        method="POST",
        path=f"{_OF_WORKSPACE}/close",
        name="closeWorkspace",
        idempotent=True,
        summary="Close a workspace for good",
        description=(
            f"With the deployment's key. {_STOPS} It is `closing` until its last run is cancelled, then "
            f"`closed`. The workspace `default` can't be closed. {_NO_BODY}"
        ),
        body=NoBody,
        body_example={},
        answers=_changed(_WORKSPACE, "closing", "The workspace after it.", shapes.WorkspaceAnswer),
        refusals=(errors.WorkspaceNotFoundError, errors.TenantStateError, errors.UnknownFieldError),
    ),
    Operation(
        method="POST",
        path=f"{_OF_WORKSPACE}/projects",
        name="createProject",
        idempotent=True,
        summary="Make a project",
        description="In a workspace that is active. The name stays in the journal for ever.",
        body=shapes.CreateProjectBody,
        body_example={"id": "web"},
        answers=(
            Answer(
                status=201,
                says="The project.",
                model=shapes.ProjectAnswer,
                example=render_tenant(_PROJECT),
            ),
        ),
        refusals=(
            errors.UnknownFieldError,
            errors.WorkspaceNotFoundError,
            errors.TenantStateError,
            errors.TenantSuspendedError,
            errors.TenantClosingError,
        ),
    ),
    Operation(
        method="GET",
        path=f"{_OF_WORKSPACE}/projects",
        name="listProjects",
        summary="List the projects of a workspace, by name",
        description="A key that is bound to a project sees that one.",
        query=shapes.TenantsQuery,
        answers=(
            Answer(
                status=200,
                says="A page of projects.",
                model=shapes.ProjectsPage,
                example=page(Page(data=(_DEFAULT_PROJECT, _PROJECT), next_cursor=None), render_tenant),
            ),
        ),
        refusals=(errors.WorkspaceNotFoundError, errors.ProjectNotFoundError, errors.InvalidCursorError),
    ),
    Operation(
        method="GET",
        path=_OF_PROJECT,
        name="getProject",
        summary="Get a project",
        description="Its state as it is now.",
        answers=(
            Answer(
                status=200,
                says="The project.",
                model=shapes.ProjectAnswer,
                example=render_tenant(_PROJECT),
            ),
        ),
        refusals=(errors.WorkspaceNotFoundError, errors.ProjectNotFoundError),
    ),
    Operation(
        method="POST",
        path=f"{_OF_PROJECT}/suspend",
        name="suspendProject",
        idempotent=True,
        summary="Suspend a project",
        description=f"{_STOPS} {_NO_BODY}",
        body=NoBody,
        body_example={},
        answers=_changed(_PROJECT, "suspended", "The project after it.", shapes.ProjectAnswer),
        refusals=(
            errors.WorkspaceNotFoundError,
            errors.ProjectNotFoundError,
            errors.TenantClosingError,
            errors.TenantStateError,
            errors.UnknownFieldError,
        ),
    ),
    Operation(
        method="POST",
        path=f"{_OF_PROJECT}/restore",
        name="restoreProject",
        idempotent=True,
        summary="Restore a suspended project",
        description=f"As a workspace is restored. {_NO_BODY}",
        body=NoBody,
        body_example={},
        answers=_changed(_PROJECT, "active", "The project after it.", shapes.ProjectAnswer),
        refusals=(
            errors.WorkspaceNotFoundError,
            errors.ProjectNotFoundError,
            errors.TenantClosingError,
            errors.TenantStateError,
            errors.TenantDrainingError,
            errors.UnknownFieldError,
        ),
    ),
)  # fmt: skip
