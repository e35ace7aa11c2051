"""A `RunService` that answers what it is told to and remembers what it was asked."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import falcon.testing
from falcon.asgi import App, Request, Response

from abeyance.audit.export import Filter
from abeyance.engine.api_keys import ApiKeyView, CreateApiKey
from abeyance.engine.callers import Caller
from abeyance.engine.questions import Question
from abeyance.engine.replies import UsedKey
from abeyance.engine.run_scopes import RunScope
from abeyance.engine.service import ListRuns, OpenLink, RunService, StartRun
from abeyance.engine.tenants import TenantView
from abeyance.errors import ApiKeyNotFoundError, NotFoundError, WaitTokenNotFoundError
from abeyance.http import samples
from abeyance.http.app import HttpServices, create_app
from abeyance.http.authentication import AuthenticationOff, DeploymentKey
from abeyance.projections.views import AuditRecord, JournalEntry, Page, RunView
from abeyance.world import SystemWorld

TOKEN = "q8Zt3vXo1xYk0c5mJ7nW9bD2fH4sL6pRaE-gT_iUyQs"
LINK = f"/v1/wait-tokens/{TOKEN}/complete"
RUN = f"/v1/runs/{samples.RUN_ID}"
KEY = "abk_0123456789"
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}

API_KEY = ApiKeyView(
    id="key_06ek2h0u4g5q1c8v",
    name="the shop",
    workspace="default",
    project=None,
    grants=("read",),
    executes=None,
    created_at=datetime(2026, 10, 25, 9, tzinfo=UTC),
    expires_at=None,
    revoked_at=None,
    created_by="deployment",
)

Thing = TypeVar("Thing")


@dataclass
class FakeRuns:
    """`calls` are (method, arguments); `failures` says what a method raises instead of answering."""

    run: RunView = samples.COMPLETED
    runs: Page[RunView] = field(default_factory=lambda: Page(data=(samples.COMPLETED,), next_cursor=None))
    entries: Page[JournalEntry] = field(default_factory=lambda: Page(data=(), next_cursor=None))
    records: Page[AuditRecord] = field(default_factory=lambda: Page(data=(), next_cursor=None))
    found: tuple[str, ...] = ()
    place: RunScope = field(default_factory=lambda: RunScope("default", "default", "shop.ship-order"))
    question: Question = field(
        default_factory=lambda: Question(name="the carrier's confirmation", schema={}, state="open")
    )
    failures: dict[str, Exception] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    before: Callable[[str], Any] | None = None

    async def _answer(self, method: str, arguments: object, result: Thing) -> Thing:
        self.calls.append((method, arguments))
        if self.before is not None:
            await self.before(method)
        if method in self.failures:
            raise self.failures[method]
        return result

    async def scope(self, run_id: UUID) -> RunScope:
        return self.place

    async def check_tenant(self, run_id: UUID) -> None:
        if "check_tenant" in self.failures:
            raise self.failures["check_tenant"]

    async def start(self, command: StartRun) -> RunView:
        return await self._answer("start", command, self.run)

    async def get(self, run_id: UUID, *, wait_s: float = 0.0) -> RunView:
        return await self._answer("get", (run_id, wait_s) if wait_s else run_id, self.run)

    async def list(self, query: ListRuns) -> Page[RunView]:
        return await self._answer("list", query, self.runs)

    async def resume(
        self,
        run_id: UUID,
        token_id: str,
        value: bytes,
        *,
        wait_s: float = 30.0,
        actor: str | None = None,
        key: UsedKey | None = None,
    ) -> RunView:
        return await self._answer("resume", (run_id, token_id, value, wait_s), self.run)

    async def check_resume(
        self, run_id: UUID, token_id: str, value: bytes, *, actor: str | None = None
    ) -> None:
        await self._answer("check_resume", (run_id, token_id, value), None)

    async def cancel(self, run_id: UUID, *, actor: str | None = None, key: UsedKey | None = None) -> RunView:
        return await self._answer("cancel", (run_id, actor), self.run)

    async def retry(self, run_id: UUID, *, actor: str | None = None, key: UsedKey | None = None) -> RunView:
        return await self._answer("retry", (run_id, actor), self.run)

    async def journal(
        self, run_id: UUID, *, after: int = 0, limit: int = 100, contents: bool = False
    ) -> Page[JournalEntry]:
        return await self._answer("journal", (run_id, after, limit, contents), self.entries)

    async def open_link(self, token: str) -> OpenLink:
        await self._answer("open_link", token, None)
        if token != TOKEN:
            raise WaitTokenNotFoundError
        return FakeLink(self)

    async def audit_log(
        self,
        caller: Caller,
        *,
        after: int = -1,
        limit: int = 100,
        run_id: UUID | None = None,
        kind: str | None = None,
    ) -> Page[AuditRecord]:
        return await self._answer("audit_log", (after, limit, run_id, kind), self.records)

    async def problems(self) -> tuple[str, ...]:
        return await self._answer("problems", None, self.found)

    def only(self, method: str) -> Any:
        """The arguments of the one call of this method."""
        (arguments,) = (arguments for name, arguments in self.calls if name == method)
        return arguments


@dataclass
class FakeLink:
    """The link `TOKEN`."""

    runs: FakeRuns
    run_id: UUID = samples.RUN_ID
    wait_id: str = samples.TOKEN_ID

    async def confirm(self) -> None:
        await self.runs._answer("confirm", None, None)

    async def answer(self, value: bytes) -> None:
        await self.runs._answer("answer", value, None)

    async def check(self, value: bytes) -> None:
        await self.runs._answer("check", value, None)

    async def ask(self) -> Question:
        return await self.runs._answer("ask", None, self.runs.question)


class FakeKeys:
    """API keys that are made and revoked by name only."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    async def create(self, caller: Caller, command: CreateApiKey) -> tuple[ApiKeyView, str]:
        self.calls.append(("create", (caller, command)))
        return replace(API_KEY, name=command.name), "abk_" + "x" * 43

    async def page(self, caller: Caller, *, limit: int = 50, cursor: str | None = None) -> Page[ApiKeyView]:
        self.calls.append(("page", (caller, limit, cursor)))
        return Page(data=(API_KEY,), next_cursor=None)

    async def revoke(self, caller: Caller, key_id: str) -> ApiKeyView:
        self.calls.append(("revoke", (caller, key_id)))
        if key_id != API_KEY.id:
            raise ApiKeyNotFoundError
        return API_KEY


class FakeTenants:
    """One workspace `shop` with one project `web`; `calls` are (method, arguments)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.failures: dict[str, Exception] = {}

    def _answer(self, method: str, *arguments: Any, state: str = "active") -> TenantView:
        self.calls.append((method, arguments))
        if method in self.failures:
            raise self.failures[method]
        at = datetime(2026, 10, 25, 9, tzinfo=UTC)
        project = arguments[1] if "project" in method else None
        return TenantView(workspace=arguments[0], project=project, state=state, created_at=at, updated_at=at)

    async def workspaces(self, *, limit: int = 50, cursor: str | None = None) -> Page[TenantView]:
        return Page(data=(self._answer("workspaces", "shop", limit, cursor),), next_cursor=None)

    async def workspace(self, workspace: str) -> TenantView:
        return self._answer("workspace", workspace)

    async def create_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        return self._answer("create_workspace", workspace, actor)

    async def suspend_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        return self._answer("suspend_workspace", workspace, actor, state="suspended")

    async def restore_workspace(
        self, workspace: str, *, actor: str | None, wait_s: float = 0.0
    ) -> TenantView:
        return self._answer("restore_workspace", workspace, actor, wait_s)

    async def close_workspace(self, workspace: str, *, actor: str | None) -> TenantView:
        return self._answer("close_workspace", workspace, actor, state="closing")

    async def projects(
        self, workspace: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[TenantView]:
        return Page(data=(self._answer("projects", workspace, "web", limit, cursor),), next_cursor=None)

    async def project(self, workspace: str, project: str) -> TenantView:
        return self._answer("project", workspace, project)

    async def create_project(self, workspace: str, project: str, *, actor: str | None) -> TenantView:
        return self._answer("create_project", workspace, project, actor)

    async def suspend_project(self, workspace: str, project: str, *, actor: str | None) -> TenantView:
        return self._answer("suspend_project", workspace, project, actor, state="suspended")

    async def restore_project(
        self, workspace: str, project: str, *, actor: str | None, wait_s: float = 0.0
    ) -> TenantView:
        return self._answer("restore_project", workspace, project, actor, wait_s)


class FakeLog:
    """A log of one checkpoint, one tile and one record, which notes what is exported."""

    def __init__(self) -> None:
        self.exported: list[tuple[Filter, str | None]] = []

    async def checkpoint(self) -> str:
        return "log.example/runs\n1\nroot\n\n— log.example/runs c2ln\n"

    async def tile(self, path: str) -> bytes:
        if path != "0/x001/000.p/1":
            raise NotFoundError("the log has no such tile")
        return b"\x00\xff" * 16

    async def proof(self, record: str) -> str:
        if record != "0":
            raise NotFoundError("the newest checkpoint has no such record")
        return "c2sp.org/tlog-proof@v1\nindex 0\n"

    async def export(self, wanted: Filter, actor: str | None) -> AsyncIterator[bytes]:
        self.exported.append((wanted, actor))
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield b'{"abeyance-bundle":1}\n'
        yield b'{"end":{}}\n'


def api(runs: FakeRuns, **more: Any) -> App[Request, Response]:
    """The application over `runs`, with the key `KEY`; `auth=AuthenticationOff()` for none."""
    service: RunService = runs
    fields: dict[str, Any] = {
        "runs": service,
        "auth": DeploymentKey(KEY),
        "world": SystemWorld(),
        "audit": FakeLog(),
        "keys": FakeKeys(),
        "tenants": FakeTenants(),
        **more,
    }
    return create_app(HttpServices(**fields))


def open_client(runs: FakeRuns, **more: Any) -> falcon.testing.TestClient:
    """A client of an application that asks nobody who is there."""
    return falcon.testing.TestClient(api(runs, auth=AuthenticationOff(), **more))
