"""The Python client of the HTTP API: `abeyance.Client`, its results and its errors.

    client = abeyance.Client()
    run = client.runs.start(flow="shop.ship-order", input={"orderId": "ord_1001"})

Without arguments it talks to `ABEYANCE_API_URL` with `ABEYANCE_API_KEY`, else to the `abeyance dev` that runs
(`abeyance.client.discovery` has the rule).
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from abeyance.client.audit import Audit
from abeyance.client.discovery import find_server, find_workspace
from abeyance.client.encoding import JsonText
from abeyance.client.errors import (
    AnswerInvalid,
    ApiError,
    BadInput,
    ConnectionFailed,
    DefinitionNotFound,
    IdempotencyKeyInFlight,
    IdempotencyKeyMismatch,
    IdempotencyReplayWithheld,
    InputInvalid,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestTooLarge,
    ResumeNotSupported,
    RunAlreadyTerminal,
    RunNotFound,
    RunNotParked,
    ServerNotFound,
    TenantNotActive,
    TenantNotChanged,
    Unauthenticated,
    Unavailable,
    UnexpectedReply,
    WaitChangeNotSupported,
    WaitTokenClosed,
    WaitTokenNotFound,
    WaitTokenNotReached,
)
from abeyance.client.keys import ApiKey, ApiKeyPage, Keys
from abeyance.client.results import (
    AuditPage,
    AuditRecord,
    Failure,
    JournalEvent,
    JournalPage,
    OtherWait,
    Run,
    RunPage,
    ToolRef,
    WaitingFor,
    WaitToken,
)
from abeyance.client.runs import Runs
from abeyance.client.tenants import Project, ProjectPage, Projects, Workspace, WorkspacePage, Workspaces
from abeyance.client.waits import LinkAttempt, LinkAttempts, Wait, WaitPage, Waits

__all__ = [
    "AnswerInvalid",
    "ApiError",
    "ApiKey",
    "ApiKeyPage",
    "Audit",
    "AuditPage",
    "AuditRecord",
    "BadInput",
    "Client",
    "ConnectionFailed",
    "DefinitionNotFound",
    "Failure",
    "IdempotencyKeyInFlight",
    "IdempotencyKeyMismatch",
    "IdempotencyReplayWithheld",
    "InputInvalid",
    "JournalEvent",
    "JournalPage",
    "JsonText",
    "Keys",
    "LinkAttempt",
    "LinkAttempts",
    "NotFound",
    "OtherWait",
    "PermissionDenied",
    "Project",
    "ProjectPage",
    "Projects",
    "RateLimited",
    "RequestTooLarge",
    "ResumeNotSupported",
    "Run",
    "RunAlreadyTerminal",
    "RunNotFound",
    "RunNotParked",
    "RunPage",
    "Runs",
    "ServerNotFound",
    "TenantNotActive",
    "TenantNotChanged",
    "ToolRef",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedReply",
    "Wait",
    "WaitChangeNotSupported",
    "WaitPage",
    "WaitToken",
    "WaitTokenClosed",
    "WaitTokenNotFound",
    "WaitTokenNotReached",
    "WaitingFor",
    "Waits",
    "Workspace",
    "WorkspacePage",
    "Workspaces",
]

DEFAULT_WORKSPACE = "default"


class Client:
    """One server's API, over one pool of connections. Close it, or use it in `with`.

    `base_url` is the server's address (a path is kept), `token` the deployment's key or an API key,
    `workspace` the one to work in with the deployment's key (left out: `ABEYANCE_WORKSPACE`, else `default`),
    `timeout_s` the seconds to wait for a reply (a start waits up to 30 s for its run). `parse_float` makes
    the numbers of outputs and contents that aren't whole: `float`, or `decimal.Decimal` where every digit
    counts. Whole numbers are always exact.
    """

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        workspace: str | None = None,
        timeout_s: float = 60.0,
        parse_float: Callable[[str], object] = float,
    ) -> None:
        # httpx takes longer to import than most commands take to run.
        from abeyance.client.transport import Transport

        server, works_in = find_server(base_url, token), workspace or find_workspace()
        self._transport = Transport(
            server,
            workspace=works_in,
            timeout_s=timeout_s,
            parse_float=parse_float,
        )
        self.runs = Runs(self._transport)
        self.audit = Audit(self._transport)
        self.keys = Keys(self._transport)
        self.waits = Waits(self._transport)
        self.workspaces = Workspaces(self._transport)
        self.projects = Projects(self._transport, works_in or DEFAULT_WORKSPACE)

    @property
    def base_url(self) -> str:
        """The address of the server that requests go to."""
        return self._transport.base_url

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
