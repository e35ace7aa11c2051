"""`client.workspaces` and `client.projects`: made, listed, suspended, restored, closed."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from abeyance.client.encoding import encode_members
from abeyance.client.results import Json, checked, parse_time_or_none

if TYPE_CHECKING:
    from abeyance.client.transport import Transport

_ROOT = "/v1/workspaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A workspace. `state` is `active`, `suspended`, `closing` or `closed`. A `default` that nobody has
    changed has no times.
    """

    id: str
    state: str
    created_at: datetime | None
    updated_at: datetime | None
    source: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project. `state` is `active` or `suspended`. A `default` that nobody has changed has no times."""

    id: str
    workspace_id: str
    state: str
    created_at: datetime | None
    updated_at: datetime | None
    source: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePage:
    """A page of workspaces, by name."""

    data: tuple[Workspace, ...]
    next_cursor: str | None
    has_more: bool
    source: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPage:
    """A page of projects, by name."""

    data: tuple[Project, ...]
    next_cursor: str | None
    has_more: bool
    source: str = field(default="", repr=False)


class Workspaces:
    """The workspaces of a deployment, for the deployment's key. Refusals are raised as `ApiError`."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> WorkspacePage:
        """A page of workspaces, by name."""
        reply, source = self._transport.get(_ROOT, {"limit": limit, "cursor": cursor})
        return checked(
            lambda: WorkspacePage(
                data=tuple(_workspace(each) for each in reply["data"]),
                next_cursor=reply.get("nextCursor"),
                has_more=bool(reply["hasMore"]),
                source=source,
            )
        )

    def get(self, workspace: str) -> Workspace:
        """One of them; an API key may ask for its own."""
        reply, source = self._transport.get(_path(workspace), {})
        return checked(lambda: _workspace(reply, source))

    def create(self, workspace: str, *, idempotency_key: str | None = None) -> Workspace:
        """Make a workspace. Its name stays in the journal for ever."""
        body = encode_members({"id": workspace})
        reply, source = self._transport.post(_ROOT, body, idempotency_key=idempotency_key)
        return checked(lambda: _workspace(reply, source))

    def suspend(self, workspace: str, *, idempotency_key: str | None = None) -> Workspace:
        """From the return on no run begins there and no answer is taken; its runs are cancelled behind it."""
        return self._change(workspace, "suspend", idempotency_key)

    def restore(self, workspace: str, *, idempotency_key: str | None = None) -> Workspace:
        """Let runs begin again, once the old ones are cancelled."""
        return self._change(workspace, "restore", idempotency_key)

    def close(self, workspace: str, *, idempotency_key: str | None = None) -> Workspace:
        """Suspend a workspace for good: it is `closing`, and `closed` once its last run is cancelled."""
        return self._change(workspace, "close", idempotency_key)

    def _change(self, workspace: str, verb: str, idempotency_key: str | None) -> Workspace:
        path = f"{_path(workspace)}/{verb}"
        reply, source = self._transport.post(path, None, idempotency_key=idempotency_key)
        return checked(lambda: _workspace(reply, source))


class Projects:
    """The projects of a workspace, for who has the grant `admin`. No `workspace` is the client's own."""

    def __init__(self, transport: "Transport", workspace: str) -> None:
        self._transport = transport
        self._workspace = workspace

    def list(
        self, *, workspace: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> ProjectPage:
        """A page of projects, by name."""
        reply, source = self._transport.get(self._path(workspace), {"limit": limit, "cursor": cursor})
        return checked(
            lambda: ProjectPage(
                data=tuple(_project(each) for each in reply["data"]),
                next_cursor=reply.get("nextCursor"),
                has_more=bool(reply["hasMore"]),
                source=source,
            )
        )

    def get(self, project: str, *, workspace: str | None = None) -> Project:
        """One of them."""
        reply, source = self._transport.get(f"{self._path(workspace)}/{quote(project, safe='')}", {})
        return checked(lambda: _project(reply, source))

    def create(
        self, project: str, *, workspace: str | None = None, idempotency_key: str | None = None
    ) -> Project:
        """Make a project. Its name stays in the journal for ever."""
        body = encode_members({"id": project})
        reply, source = self._transport.post(self._path(workspace), body, idempotency_key=idempotency_key)
        return checked(lambda: _project(reply, source))

    def suspend(
        self, project: str, *, workspace: str | None = None, idempotency_key: str | None = None
    ) -> Project:
        """From the return on no run begins there and no answer is taken; its runs are cancelled behind it."""
        return self._change(project, "suspend", workspace, idempotency_key)

    def restore(
        self, project: str, *, workspace: str | None = None, idempotency_key: str | None = None
    ) -> Project:
        """Let runs begin again, once the old ones are cancelled."""
        return self._change(project, "restore", workspace, idempotency_key)

    def _change(self, project: str, verb: str, workspace: str | None, idempotency_key: str | None) -> Project:
        path = f"{self._path(workspace)}/{quote(project, safe='')}/{verb}"
        reply, source = self._transport.post(path, None, idempotency_key=idempotency_key)
        return checked(lambda: _project(reply, source))

    def _path(self, workspace: str | None) -> str:
        return f"{_path(workspace or self._workspace)}/projects"


def _path(workspace: str) -> str:
    return f"{_ROOT}/{quote(workspace, safe='')}"


def _workspace(reply: Json, source: str = "") -> Workspace:
    return Workspace(
        id=reply["id"],
        state=reply["state"],
        created_at=parse_time_or_none(reply.get("createdAt")),
        updated_at=parse_time_or_none(reply.get("updatedAt")),
        source=source,
    )


def _project(reply: Json, source: str = "") -> Project:
    return Project(
        id=reply["id"],
        workspace_id=reply["workspaceId"],
        state=reply["state"],
        created_at=parse_time_or_none(reply.get("createdAt")),
        updated_at=parse_time_or_none(reply.get("updatedAt")),
        source=source,
    )
