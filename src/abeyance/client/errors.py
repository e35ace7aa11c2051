"""What the client raises.

* ClientError
  + ServerNotFound                 no address was given and no `abeyance dev` runs
  + ConnectionFailed               the server can't be reached, or the connection broke
  + UnexpectedReply                the reply isn't one of abeyance's
  + ApiError                       the server refused; nothing was taken
    - NotFound                     status 404
      . RunNotFound, DefinitionNotFound, WaitTokenNotFound
    - BadInput, InputInvalid, AnswerInvalid        with `.issues`
    - Unauthenticated, PermissionDenied
    - WaitTokenClosed              with `.state`
    - WaitTokenNotReached, WaitChangeNotSupported
    - TenantNotActive, TenantNotChanged
    - RunAlreadyTerminal           with `.run_status`
    - RunNotParked
    - ResumeNotSupported
    - IdempotencyKeyMismatch, IdempotencyReplayWithheld
    - IdempotencyKeyInFlight       with `.retry_after_s`
    - RequestTooLarge
    - RateLimited, Unavailable     with `.retry_after_s`

A refusal's class follows from its `code`; a code that this release doesn't know is a plain `ApiError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from abeyance.errors import AbeyanceError, Issue


class ClientError(AbeyanceError):
    """What every error of the client derives from."""

    code = "client-error"


class ServerNotFound(ClientError):
    """No address was given and no running `abeyance dev` was found. The message says where was looked."""

    code = "server-not-found"


class ConnectionFailed(ClientError):
    """The server can't be reached, or the connection broke: then it may have taken the request or not
    (`perhaps_taken`). Send it again with the same `idempotency_key`.
    """

    code = "connection-failed"

    def __init__(self, reason: str, *, perhaps_taken: bool = False) -> None:
        super().__init__(reason)
        self.perhaps_taken = perhaps_taken


class UnexpectedReply(ClientError):
    """The reply isn't one of abeyance's: another program listens there, or a proxy answered."""

    code = "unexpected-reply"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal as it came: its HTTP status, the error body's parts, and `Retry-After` in seconds."""

    status: int
    code: str
    message: str
    details: Mapping[str, object]
    request_id: str | None
    retry_after_s: int | None


class ApiError(ClientError):
    """The server refused and took nothing. `code` is stable, `details` as the API's reference says."""

    code: str  # type: ignore[misc] # of each refusal, not of the class

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.code = refusal.code
        self.status = refusal.status
        self.details = refusal.details
        self.request_id = refusal.request_id
        self.retry_after_s = refusal.retry_after_s

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Where the value that was sent breaks which rule."""
        issues = self.details.get("issues")
        found = [issue for issue in issues if isinstance(issue, Mapping)] if isinstance(issues, list) else []
        return tuple(Issue(str(issue.get("path", "")), str(issue.get("rule", ""))) for issue in found)


class NotFound(ApiError):
    """There is no such thing, or it belongs to another workspace."""


class RunNotFound(NotFound):
    """No run has this id."""


class DefinitionNotFound(NotFound):
    """No flow or script has this id and version."""


class WaitTokenNotFound(NotFound):
    """The run has no such wait."""


class BadInput(ApiError):
    """The request isn't what the API takes."""


class InputInvalid(ApiError):
    """The input doesn't fit the definition's input schema; no run was started."""


class AnswerInvalid(ApiError):
    """The answer doesn't fit the tool's output schema; the wait stays open."""


class Unauthenticated(ApiError):
    """No key was sent, or one that the server doesn't know."""


class PermissionDenied(ApiError):
    """The key doesn't allow this."""


class WaitTokenClosed(ApiError):
    """The wait takes no other answer."""

    @property
    def state(self) -> str:
        """`completed`, `timed-out`, `cancelled`, `unused` or `answered`."""
        return str(self.details.get("state", ""))


class WaitTokenNotReached(ApiError):
    """The run hasn't reached the wait: it has no deadline yet."""


class WaitChangeNotSupported(ApiError):
    """The wait isn't one for another system's answer: it has no link."""


class RunAlreadyTerminal(ApiError):
    """The run has ended."""

    @property
    def run_status(self) -> str:
        """`completed`, `failed` or `cancelled`."""
        return str(self.details.get("status", ""))


class RunNotParked(ApiError):
    """The run isn't parked: there is nothing to try again."""


class ResumeNotSupported(ApiError):
    """The wait isn't one for another system's answer."""


class TenantNotActive(ApiError):
    """The workspace is suspended or closing, or the project is suspended: nothing goes on there."""


class TenantNotChanged(ApiError):
    """The workspace or project is there, in a state that the change doesn't lead on from now. If its runs are
    still being cancelled, `retry_after_s` says when to ask again.
    """


class IdempotencyKeyMismatch(ApiError):
    """The `idempotency_key` was used for another request in the last 24 hours."""


class IdempotencyKeyInFlight(ApiError):
    """The first request with this `idempotency_key` is under way; send it again after `retry_after_s`."""


class IdempotencyReplayWithheld(ApiError):
    """The first request with this `idempotency_key` may have had its effect, and its answer isn't kept."""


class RequestTooLarge(ApiError):
    """The request is over the server's limit."""


class RateLimited(ApiError):
    """Too many requests; `retry_after_s` says when to send it again."""


class Unavailable(ApiError):
    """The server can't use its store right now; `retry_after_s` says when to send it again."""


_BY_CODE: dict[str, type[ApiError]] = {
    "run-not-found": RunNotFound,
    "definition-not-found": DefinitionNotFound,
    "wait-token-not-found": WaitTokenNotFound,
    "bad-input": BadInput,
    "unknown-field": BadInput,
    "invalid-cursor": BadInput,
    "input-validation-failed": InputInvalid,
    "wait-token-output-invalid": AnswerInvalid,
    "unauthenticated": Unauthenticated,
    "permission-denied": PermissionDenied,
    "wait-token-closed": WaitTokenClosed,
    "wait-token-not-reached": WaitTokenNotReached,
    "wait-change-not-supported": WaitChangeNotSupported,
    "run-already-terminal": RunAlreadyTerminal,
    "run-not-parked": RunNotParked,
    "tenant-suspended": TenantNotActive,
    "tenant-closing": TenantNotActive,
    "project-suspended": TenantNotActive,
    "tenant-state-conflict": TenantNotChanged,
    "tenant-draining": TenantNotChanged,
    "run-resume-not-supported": ResumeNotSupported,
    "idempotency-key-body-mismatch": IdempotencyKeyMismatch,
    "idempotency-key-in-flight": IdempotencyKeyInFlight,
    "idempotency-replay-withheld": IdempotencyReplayWithheld,
    "request-too-large": RequestTooLarge,
    "rate-limit-exceeded": RateLimited,
    "tenant-state-unavailable": Unavailable,
    "signing-key-retired": Unavailable,
}


def error_of(refusal: Refusal) -> ApiError:
    """The error of a refusal, of the class that its code says."""
    return _BY_CODE.get(refusal.code, NotFound if refusal.status == 404 else ApiError)(refusal)
