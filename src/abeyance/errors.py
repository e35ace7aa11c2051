"""Every error that abeyance raises on purpose.

* AbeyanceError
  + ConfigurationError              a setting, key file or store can't be used; the start stops
  + InvalidDefinitionError          a tool, flow, script or pack is wrong
  + RefusedError                    a request was refused; nothing was taken
    - BadInputError                 not JSON, or not the shape the request takes
      . UnknownFieldError, InvalidCursorError
    - RequestTooLargeError, UnsupportedMediaTypeError, RateLimitedError
    - UnauthenticatedError, PermissionDeniedError
    - AnswerInvalidError, InputInvalidError   it doesn't fit the tool's or the definition's schema
    - NotFoundError
      . RunNotFoundError, DefinitionNotFoundError, WaitTokenNotFoundError
      . WorkspaceNotFoundError, ProjectNotFoundError, ApiKeyNotFoundError
    - TenantSuspendedError, TenantClosingError, ProjectSuspendedError, TenantStateError, TenantDrainingError
    - WaitTokenClosedError          the wait is over, or holds another answer
    - WaitTokenNotReachedError, WaitChangeNotSupportedError   the run isn't there yet; it has no link
    - RunAlreadyTerminalError, ResumeNotSupportedError
  + StoreUnavailableError           busy, full, read-only or gone; nothing was taken
    - SigningKeyRetiredError        this process signs with a key that has ended
  + ConflictError                   the stream moved on, or the lease is lost; decide again
  + VerificationError               a signature, a chain link or a digest doesn't hold
    - HistoryDamagedError           of a run's stored history
  + UnknownEventError               a topic or body version this release can't read
  + ContentErasedError              the content is gone, and an erasure says so
  + DivergenceError                 replayed code asked for something history doesn't say
  + ToolError                       what a tool or a script sees
    - PauseNotAvailableError, InvalidPauseError   the tool can't pause here, or not so
    - ValueInvalidError             a value doesn't fit its type's schema or model
    - UnexpectedResponseError       an HTTP tool was answered by something that it can't take
    - CallFailedError               a call failed for good; `.failure_code` says how
    - InvalidOperationError, TooManyBranchesError   a script's context was used wrongly
* BranchCancelled (BaseException)   thrown into the losing branches of a race

`code` is stable and part of the contract. Data is in attributes, and no message holds a user's value.
HTTP status codes are assigned in `abeyance.http.errors` alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class AbeyanceError(Exception):
    """What every deliberate error derives from. `message` is what it says if it is told nothing else."""

    code: ClassVar[str] = "internal-error"
    message: ClassVar[str] = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.message)


class ConfigurationError(AbeyanceError):
    """A setting, a key file or the store can't be used. The message names it and says what to do."""

    code = "configuration-error"


class InvalidDefinitionError(AbeyanceError):
    """A definition is refused when it is loaded. `definition` is its id as far as it is known."""

    code = "invalid-tool-definition"

    def __init__(self, definition: str, reason: str) -> None:
        super().__init__(f"{definition}: {reason}")
        self.definition = definition
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Issue:
    """Where a value breaks which rule. `path` is a JSON pointer (RFC 6901), `rule` a JSON Schema keyword or a
    short reason. Never a value.
    """

    path: str
    rule: str


class RefusedError(AbeyanceError):
    """A request was refused and nothing was taken."""


class BadInputError(RefusedError):
    """The body or an argument can't be read as what the request takes. `reason` is safe to show."""

    code = "bad-input"

    def __init__(self, reason: str, issues: Sequence[Issue] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.issues = tuple(issues)


class UnknownFieldError(BadInputError):
    """The body has a field that the request doesn't take."""

    code = "unknown-field"


class InvalidCursorError(BadInputError):
    """The cursor wasn't made by this list."""

    code = "invalid-cursor"


class RequestTooLargeError(RefusedError):
    """The body is over `limit_bytes`."""

    code = "request-too-large"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the body is over {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class UnsupportedMediaTypeError(RefusedError):
    """The body isn't sent as JSON."""

    code = "unsupported-media-type"
    message = "send the body with Content-Type: application/json"


class RateLimitedError(RefusedError):
    """Too many requests from this client; try again after `retry_after_s` seconds."""

    code = "rate-limit-exceeded"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many requests; send it again after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class UnauthenticatedError(RefusedError):
    """No key, or one that isn't known."""

    code = "unauthenticated"
    message = "send a key that is good now, as `Authorization: Bearer <key>`"


class PermissionDeniedError(RefusedError):
    """The key lacks the grant `grant`, or has it only for something else than `where` says."""

    code = "permission-denied"

    def __init__(self, grant: str, where: str = "") -> None:
        super().__init__(f"this takes the grant `{grant}`{where and f' {where}'}, which the key hasn't")
        self.grant = grant


class AnswerInvalidError(RefusedError):
    """The answer doesn't fit the tool's output schema; the wait stays open."""

    code = "wait-token-output-invalid"

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("the answer doesn't fit the tool's output schema; the wait stays open")
        self.issues = tuple(issues)


class InputInvalidError(RefusedError):
    """The input doesn't fit the definition's input schema; no run was started."""

    code = "input-validation-failed"

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("the input doesn't fit the definition's input schema")
        self.issues = tuple(issues)


class NotFoundError(RefusedError):
    """There is no such thing here, or it belongs to another workspace."""

    code = "not-found"


class RunNotFoundError(NotFoundError):
    """No run has this id."""

    code = "run-not-found"
    message = "no run has this id"


class DefinitionNotFoundError(NotFoundError):
    """No flow, script or agent has this id (and version)."""

    code = "definition-not-found"
    message = "no definition has this id and version; check the loaded pack"


class WaitTokenNotFoundError(NotFoundError):
    """No wait has this link, or the run has no such wait. Wrong and unknown answer alike."""

    code = "wait-token-not-found"
    message = "there is no such wait: no link and no id of a wait is this one"


class WorkspaceNotFoundError(NotFoundError):
    """No workspace has this name, or the key is another one's."""

    code = "workspace-not-found"
    message = "no workspace has this name"


class ProjectNotFoundError(NotFoundError):
    """The workspace has no project of this name."""

    code = "project-not-found"
    message = "the workspace has no project of this name"


class TenantSuspendedError(RefusedError):
    """The run's workspace is suspended: nothing goes on there."""

    code = "tenant-suspended"
    message = "the workspace is suspended: its runs are cancelled, and none begins"


class TenantClosingError(RefusedError):
    """The run's workspace is closing or closed: nothing goes on there any more."""

    code = "tenant-closing"
    message = "the workspace is closed for good: its runs are cancelled, and none begins"


class ProjectSuspendedError(RefusedError):
    """The run's project is suspended: nothing goes on there."""

    code = "project-suspended"
    message = "the project is suspended: its runs are cancelled, and none begins"


class TenantStateError(RefusedError):
    """The workspace or project is there, in a `state` that the change doesn't lead on from: `active`,
    `suspended`, `closing` or `closed`.
    """

    code = "tenant-state-conflict"

    def __init__(self, state: str) -> None:
        super().__init__(f"it exists already and is {state}, from which this doesn't lead on")
        self.state = state


class TenantDrainingError(RefusedError):
    """Nothing is restored while runs of it are still being cancelled; come again after `retry_after_s` s."""

    code = "tenant-draining"

    def __init__(self, retry_after_s: int = 2) -> None:
        super().__init__("its runs are still being cancelled: restore it again in a moment")
        self.retry_after_s = retry_after_s


class ApiKeyNotFoundError(NotFoundError):
    """No API key has this id."""

    code = "key-not-found"
    message = "no API key has this id"


class WaitTokenClosedError(RefusedError):
    """The wait is `completed`, `timed-out`, `cancelled`, `unused` or `answered`, which is its `state`."""

    code = "wait-token-closed"

    def __init__(self, state: str) -> None:
        super().__init__(f"the wait takes no other answer: {state}")
        self.state = state


class WaitTokenNotReachedError(RefusedError):
    """The run hasn't reached the wait: it has no deadline that could be moved."""

    code = "wait-token-not-reached"
    message = "the run hasn't reached this wait, which has no deadline yet; try again in a moment"


class WaitChangeNotSupportedError(RefusedError):
    """The wait that was named isn't a wait token: it has no link, and its deadline stays."""

    code = "wait-change-not-supported"
    message = "this isn't a wait for another system's answer: it has no link, its deadline stays"


class RunAlreadyTerminalError(RefusedError):
    """The run has ended. `status` is `completed`, `failed` or `cancelled`."""

    code = "run-already-terminal"

    def __init__(self, status: str) -> None:
        super().__init__(f"the run has ended: {status}")
        self.status = status


class RunNotParkedError(RefusedError):
    """The run isn't parked: there is nothing to try again."""

    code = "run-not-parked"
    message = "the run isn't parked: it goes on by itself, or waits for something else"


class IdempotencyKeyMismatchError(RefusedError):
    """The idempotency key was used for another request, with another body."""

    code = "idempotency-key-body-mismatch"
    message = "this Idempotency-Key was sent with another request; send this one with a new key"


class IdempotencyKeyInFlightError(RefusedError):
    """The first request with this idempotency key is under way; ask again after `retry_after_s` seconds."""

    code = "idempotency-key-in-flight"

    def __init__(self, retry_after_s: int = 1) -> None:
        super().__init__("the first request with this Idempotency-Key is under way; send it again soon")
        self.retry_after_s = retry_after_s


class IdempotencyReplayWithheldError(RefusedError):
    """The first request with this idempotency key may have had its effect, and its answer wasn't kept."""

    code = "idempotency-replay-withheld"
    message = (
        "the answer to the first request with this Idempotency-Key isn't kept, and nothing was done again; "
        "look what came of it, or send a new key"
    )


class ResumeNotSupportedError(RefusedError):
    """The wait that was named isn't a pause; only another system's answer can be given this way."""

    code = "run-resume-not-supported"
    message = "this wait isn't a pause and takes no answer this way"


class StoreUnavailableError(AbeyanceError):
    """The store is busy, full, read-only or gone. Nothing was taken; the same request works after about
    `retry_after_s` seconds. The driver's own error is the `__cause__`.
    """

    code = "tenant-state-unavailable"

    def __init__(self, reason: str = "the store can't be used right now", retry_after_s: int = 1) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class PerhapsStoredError(StoreUnavailableError):
    """The store was lost in the middle of a write, and can't be asked: it may be there."""


class SigningKeyRetiredError(StoreUnavailableError):
    """The key that this process signs with was retired or revoked: it writes nothing any more. A process that
    has the new key serves whoever asked, so to them it is a store that can't be used now.
    """

    code = "signing-key-retired"

    def __init__(self) -> None:
        super().__init__(
            "the key that this process signs events with was retired or revoked; "
            "start the process again with the deployment's new event key"
        )


class ConflictError(AbeyanceError):
    """The stream has moved on since it was read, or the lease is held by somebody else: decide again."""

    code = "conflict"


class VerificationError(AbeyanceError):
    """A signature, a chain link or a digest doesn't hold. `where` names the record."""

    code = "verification-failed"

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.where = where


class HistoryDamagedError(VerificationError):
    """A run's stored history doesn't hold together; the run is parked, nothing is written to it."""

    code = "history-damaged"


class UnknownEventError(AbeyanceError):
    """The store holds an event that this release can't read: upgrade abeyance before going on."""

    code = "unknown-event"

    def __init__(self, topic: str, body_version: int) -> None:
        super().__init__(f"event {topic!r} with body version {body_version} is not known to this release")
        self.topic = topic
        self.body_version = body_version


class ContentErasedError(AbeyanceError):
    """The content of the event at `version` is gone."""

    code = "content-erased"

    def __init__(self, version: int) -> None:
        super().__init__(f"the content of event {version} is gone")
        self.version = version


class DivergenceError(AbeyanceError):
    """Replayed code asked for something that its history doesn't hold. `recorded` and `requested` are kind,
    name and version in short; `line` is the code's, as `module:number`.
    """

    code = "code-mismatch"

    def __init__(self, *, operation: str, recorded: str, requested: str, line: str = "") -> None:
        super().__init__(f"operation {operation}: history holds {recorded}, the code asks for {requested}")
        self.operation = operation
        self.recorded = recorded
        self.requested = requested
        self.line = line


class ToolError(AbeyanceError):
    """What a tool's handler or a script sees of abeyance's own errors."""


class PauseNotAvailableError(ToolError):
    """The tool isn't declared `pauses=True`, or no wait can be made here; nothing was handed on."""

    code = "pause-not-available"
    message = "this tool can't pause: declare it with `pauses=True` and run it in a run"


class InvalidPauseError(ToolError):
    """`ctx.pause` was called with a time or a name that it doesn't take."""

    code = "invalid-pause"


class ValueInvalidError(ToolError):
    """A value doesn't fit its type's JSON Schema or the type's own validation. `issues` says where."""

    code = "value-invalid"

    def __init__(self, issues: Sequence[Issue]) -> None:
        shown = [f"{issue.path or '/'}: {issue.rule}" for issue in issues[:20]]
        more = [f"and {len(issues) - 20} more"] if len(issues) > 20 else []
        super().__init__("; ".join(shown + more))
        self.issues = tuple(issues)


class UnexpectedResponseError(ToolError):
    """The server that an HTTP tool asked answered with an HTTP `status` that isn't 2xx, or with too much. The
    body is never part of the message.
    """

    code = "unexpected-response"

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}")
        self.status = status


class CallFailedError(ToolError):
    """A call failed for good. Scripts may catch it. `failure_code` is one of those of calls (`handler-error`,
    `wait-token-timed-out`, …), `detail` the stored message: a user's words, so never in `str(error)`.
    """

    code = "call-failed"

    def __init__(self, failure_code: str, *, tool: str, operation: str, detail: object = None) -> None:
        super().__init__(f"call of {tool} (operation {operation}) failed: {failure_code}")
        self.failure_code = failure_code
        self.tool = tool
        self.operation = operation
        self.detail = detail


class InvalidOperationError(ToolError):
    """A script used an operation of its context in a way that it can't be used; the message says which."""

    code = "invalid-operation"


class TooManyBranchesError(ToolError):
    """A `gather` or `race` would open more than `limit` branches at once in its run; none was opened."""

    code = "too-many-branches"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a run has at most {limit} open branches: gather in portions, or start runs")
        self.limit = limit


class BranchCancelled(BaseException):  # not an error: user code must not swallow it
    """Thrown into the branches that lost a race, in branch order."""
