"""`/v1/workspaces` and what is below: workspaces and projects are made, listed, suspended, restored, closed.

Workspaces are the deployment's own key's to change. Projects are also a workspace's own key's, if it has
`admin`: another workspace isn't there for it, nor is another project for a key that is bound to one.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from falcon.asgi import Request, Response

from abeyance.engine.callers import ADMIN, Caller
from abeyance.engine.replies import UsedKey
from abeyance.engine.tenants import TenantView
from abeyance.errors import ProjectNotFoundError, WorkspaceNotFoundError
from abeyance.http.body import read_json
from abeyance.http.idempotency import Idempotency, Rendered
from abeyance.http.render import dump, format_time, page
from abeyance.http.resources.waiting import WaitingRequests
from abeyance.http.schemas import NoBody, read_body, read_query
from abeyance.http.tenants_schemas import CreateProjectBody, CreateWorkspaceBody, TenantsQuery
from abeyance.projections.views import Page

Work = Callable[[], Awaitable[TenantView]]


class TenantService(Protocol):
    """See `abeyance.engine.tenants.Tenants`."""

    async def workspaces(self, *, limit: int = 50, cursor: str | None = None) -> Page[TenantView]:
        """A page of workspaces."""

    async def workspace(self, workspace: str) -> TenantView:
        """One."""

    async def create_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        """Make one."""

    async def suspend_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        """Suspend it."""

    async def restore_workspace(
        self, workspace: str, *, actor: str | None, wait_s: float = 0.0
    ) -> TenantView:
        """Let runs begin again."""

    async def close_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        """Suspend it for good."""

    async def projects(
        self, workspace: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[TenantView]:
        """A page of a workspace's projects."""

    async def project(self, workspace: str, project: str) -> TenantView:
        """One."""

    async def create_project(self, workspace: str, project: str, *, actor: str | None) -> TenantView:
        """Make one."""

    async def suspend_project(self, workspace: str, project: str, *, actor: str | None) -> TenantView:
        """Suspend it."""

    async def restore_project(
        self, workspace: str, project: str, *, actor: str | None, wait_s: float = 0.0
    ) -> TenantView:
        """Let runs begin again."""


def tenant_routes(
    tenants: TenantService, idempotency: Idempotency, waiting: WaitingRequests
) -> Mapping[str, object]:
    """The routes of workspaces and projects."""
    own, project = "/v1/workspaces/{workspace}", "/v1/workspaces/{workspace}/projects/{project}"
    return {
        "/v1/workspaces": Workspaces(tenants, idempotency),
        own: OneWorkspace(tenants),
        f"{own}/suspend": SuspendWorkspace(tenants, idempotency),
        f"{own}/restore": RestoreWorkspace(tenants, idempotency, waiting),
        f"{own}/close": CloseWorkspace(tenants, idempotency),
        f"{own}/projects": Projects(tenants, idempotency),
        project: OneProject(tenants),
        f"{project}/suspend": SuspendProject(tenants, idempotency),
        f"{project}/restore": RestoreProject(tenants, idempotency, waiting),
    }


def render_tenant(view: TenantView) -> bytes:
    """A workspace or a project as it is shown."""
    times = {"createdAt": view.created_at, "updatedAt": view.updated_at}
    shown: dict[str, object] = {
        "id": view.project or view.workspace,
        "workspaceId": view.workspace if view.project else None,
        "state": view.state,
        **{name: None if moment is None else format_time(moment) for name, moment in times.items()},
    }
    return dump({name: value for name, value in shown.items() if value is not None})


def _check_workspace(req: Request, workspace: str) -> Caller:
    caller: Caller = req.context.caller
    if not caller.everywhere and workspace != caller.workspace:
        raise WorkspaceNotFoundError
    return caller


def _check_project(req: Request, workspace: str, project: str) -> Caller:
    caller = _check_workspace(req, workspace)
    if caller.project not in (None, project):
        raise ProjectNotFoundError
    return caller


class _Changes:
    """What changes one of them, and takes no body that says anything."""

    def __init__(self, tenants: TenantService, idempotency: Idempotency) -> None:
        self._tenants = tenants
        self._idempotency = idempotency

    async def _change(self, req: Request, resp: Response, work: Work) -> None:
        sent = await read_json(req)
        read_body(NoBody, sent)
        await self._put(req, resp, sent, work, status=200)

    async def _put(self, req: Request, resp: Response, sent: bytes, work: Work, *, status: int) -> None:
        async def first(_: UsedKey | None) -> Rendered:
            view = await work()
            return Rendered(status=status, body=render_tenant(view))

        await self._idempotency.answer_reserved(req, resp, sent, first)


class _Restores(_Changes):
    """What waits for runs to be cancelled first."""

    def __init__(self, tenants: TenantService, idempotency: Idempotency, waiting: WaitingRequests) -> None:
        super().__init__(tenants, idempotency)
        self._waiting = waiting


class Workspaces(_Changes):
    """The workspaces: make one, list them."""

    async def on_post(self, req: Request, resp: Response) -> None:
        """Make a workspace."""
        sent = await read_json(req)
        name, actor = read_body(CreateWorkspaceBody, sent).id, req.context.actor
        await self._put(
            req, resp, sent, lambda: self._tenants.create_workspace(name, actor=actor), status=201
        )

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page of workspaces, by name."""
        query = read_query(TenantsQuery, req.scope["query_string"])
        found = await self._tenants.workspaces(limit=query.limit, cursor=query.cursor)
        resp.data = page(found, render_tenant)

    on_head = on_get


class OneWorkspace:
    """One workspace."""

    def __init__(self, tenants: TenantService) -> None:
        self._tenants = tenants

    async def on_get(self, req: Request, resp: Response, workspace: str) -> None:
        """The workspace as it is now."""
        _check_workspace(req, workspace)
        resp.data = render_tenant(await self._tenants.workspace(workspace))

    on_head = on_get


class SuspendWorkspace(_Changes):
    """Suspends a workspace."""

    async def on_post(self, req: Request, resp: Response, workspace: str) -> None:
        """From the reply on no run begins there, and no answer is taken; its runs are cancelled behind it."""
        actor = req.context.actor
        await self._change(req, resp, lambda: self._tenants.suspend_workspace(workspace, actor=actor))


class RestoreWorkspace(_Restores):
    """Restores a workspace."""

    async def on_post(self, req: Request, resp: Response, workspace: str) -> None:
        """Let runs begin again, once the old ones are cancelled."""
        actor, tenants = req.context.actor, self._tenants
        await self._change(
            req,
            resp,
            lambda: self._waiting.within(
                lambda wait_s: tenants.restore_workspace(workspace, actor=actor, wait_s=wait_s)
            ),
        )


class CloseWorkspace(_Changes):
    """Closes a workspace."""

    async def on_post(self, req: Request, resp: Response, workspace: str) -> None:
        """Suspend it for good."""
        actor = req.context.actor
        await self._change(req, resp, lambda: self._tenants.close_workspace(workspace, actor=actor))


class Projects(_Changes):
    """The projects of a workspace: make one, list them."""

    async def on_post(self, req: Request, resp: Response, workspace: str) -> None:
        """Make a project."""
        caller = _check_workspace(req, workspace)
        sent = await read_json(req)
        name = read_body(CreateProjectBody, sent).id
        caller.require(ADMIN, project=name)
        await self._put(
            req,
            resp,
            sent,
            lambda: self._tenants.create_project(workspace, name, actor=caller.actor),
            status=201,
        )

    async def on_get(self, req: Request, resp: Response, workspace: str) -> None:
        """A page of projects, by name; of a caller that is bound to one, that one."""
        caller = _check_workspace(req, workspace)
        query = read_query(TenantsQuery, req.scope["query_string"])
        if caller.project is None:
            found = await self._tenants.projects(workspace, limit=query.limit, cursor=query.cursor)
        else:
            own = await self._tenants.project(workspace, caller.project)
            found = Page(data=(own,), next_cursor=None)
        resp.data = page(found, render_tenant)

    on_head = on_get


class OneProject:
    """One project."""

    def __init__(self, tenants: TenantService) -> None:
        self._tenants = tenants

    async def on_get(self, req: Request, resp: Response, workspace: str, project: str) -> None:
        """The project as it is now."""
        _check_project(req, workspace, project)
        resp.data = render_tenant(await self._tenants.project(workspace, project))

    on_head = on_get


class SuspendProject(_Changes):
    """Suspends a project."""

    async def on_post(self, req: Request, resp: Response, workspace: str, project: str) -> None:
        """As a workspace is suspended."""
        actor = _check_project(req, workspace, project).actor
        await self._change(req, resp, lambda: self._tenants.suspend_project(workspace, project, actor=actor))


class RestoreProject(_Restores):
    """Restores a project."""

    async def on_post(self, req: Request, resp: Response, workspace: str, project: str) -> None:
        """As a workspace is restored."""
        actor, tenants = _check_project(req, workspace, project).actor, self._tenants
        await self._change(
            req,
            resp,
            lambda: self._waiting.within(
                lambda wait_s: tenants.restore_project(workspace, project, actor=actor, wait_s=wait_s)
            ),
        )
