"""The one table from errors to answers: status, code, body and headers of every refusal.

What holds, and is tested in `tests/api/test_errors.py`:

1. Every `RefusedError` of `abeyance.errors` has a row; a status is assigned here and nowhere else.
2. An error that nobody planned is `500 internal-server-error`. Its text goes nowhere, since it may hold
   what a person sent: the log has its type and the places it came through, under the request's id.
3. falcon's own errors are answered as ours.

The body is `{"error": {"code", "message", "details"?, "requestId"}}`; `code` is the contract.
"""

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import falcon
from falcon.asgi import Request, Response

from abeyance import errors
from abeyance.http.render import dump

_LOG = logging.getLogger("abeyance.http")

INTERNAL_STATUS = 500
INTERNAL_CODE = "internal-server-error"
INTERNAL_MESSAGE = "something went wrong here; the log says what, under this request's id"

Details: TypeAlias = Mapping[str, object]


class MethodNotAllowedError(errors.RefusedError):
    """The route is there, but doesn't take this method. `allow` lists those it takes (RFC 9110, 15.5.6)."""

    code = "method-not-allowed"

    def __init__(self, allow: str) -> None:
        super().__init__("this route doesn't take this method; the Allow header lists those it takes")
        self.allow = allow


def _nothing(_: Any) -> dict[str, str]:
    return {}


def _issues(error: Any) -> Details:
    issues = [{"path": issue.path, "rule": issue.rule} for issue in error.issues]
    return {"issues": issues} if issues else {}


def _retry_after(error: Any) -> dict[str, str]:
    return {"Retry-After": str(max(1, error.retry_after_s))}


@dataclass(frozen=True, slots=True)
class Row:
    """How errors of one class are answered. `example` is one of them, for the reference and the tests."""

    status: int
    example: errors.AbeyanceError
    details: Callable[[Any], Details] = _nothing
    headers: Callable[[Any], dict[str, str]] = _nothing


_ISSUES = (errors.Issue("/pickupAt", "pattern"),)

TABLE: tuple[Row, ...] = (
    Row(400, errors.BadInputError("the body isn't JSON"), _issues),
    Row(400, errors.UnknownFieldError("a field that this request doesn't take",
                                      (errors.Issue("/inptu", "additionalProperties"),)), _issues),
    Row(400, errors.InvalidCursorError("the cursor wasn't made by this list"), _issues),
    Row(400, errors.AnswerInvalidError(_ISSUES), _issues),
    Row(400, errors.InputInvalidError((errors.Issue("/orderId", "pattern"),)), _issues),
    Row(401, errors.UnauthenticatedError(), headers=lambda _: {"WWW-Authenticate": "Bearer"}),
    Row(403, errors.PermissionDeniedError("write"), lambda error: {"grant": error.grant}),
    Row(404, errors.NotFoundError("there is nothing at this address")),
    Row(404, errors.RunNotFoundError()),
    Row(404, errors.DefinitionNotFoundError()),
    Row(404, errors.WaitTokenNotFoundError()),
    Row(404, errors.WorkspaceNotFoundError()),
    Row(404, errors.ProjectNotFoundError()),
    Row(404, errors.ApiKeyNotFoundError()),
    Row(405, MethodNotAllowedError("POST"), headers=lambda error: {"Allow": error.allow}),
    Row(409, errors.WaitTokenClosedError("completed"), lambda error: {"state": error.state}),
    Row(409, errors.WaitTokenNotReachedError()),
    Row(409, errors.RunAlreadyTerminalError("cancelled"), lambda error: {"status": error.status}),
    Row(409, errors.RunNotParkedError()),
    Row(409, errors.TenantSuspendedError()),
    Row(409, errors.TenantClosingError()),
    Row(409, errors.ProjectSuspendedError()),
    Row(409, errors.TenantStateError("suspended"), lambda error: {"state": error.state}),
    Row(409, errors.TenantDrainingError(), headers=_retry_after),
    Row(409, errors.IdempotencyKeyMismatchError()),
    Row(409, errors.IdempotencyKeyInFlightError(), headers=_retry_after),
    Row(409, errors.IdempotencyReplayWithheldError()),
    Row(413, errors.RequestTooLargeError(1_048_576), lambda error: {"limitBytes": error.limit_bytes}),
    Row(415, errors.UnsupportedMediaTypeError()),
    Row(422, errors.ResumeNotSupportedError()),
    Row(422, errors.WaitChangeNotSupportedError()),
    Row(429, errors.RateLimitedError(12), headers=_retry_after),
    Row(503, errors.StoreUnavailableError(), headers=_retry_after),
)  # fmt: skip

_ROWS: dict[type, Row] = {type(row.example): row for row in TABLE}


def find_row(kind: type[Exception]) -> Row | None:
    """The row of the nearest class that `kind` derives from, `None` for what nobody planned."""
    return next((_ROWS[base] for base in kind.__mro__ if base in _ROWS), None)


def error_body(code: str, message: str, request_id: str, details: Details | None = None) -> bytes:
    """The JSON of a refusal."""
    error: dict[str, object] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return dump({"error": {**error, "requestId": request_id}})


def body_of(row: Row, error: errors.AbeyanceError, request_id: str) -> bytes:
    """The JSON of this error, which belongs to this row."""
    return error_body(error.code, str(error), request_id, row.details(error))


def ours(error: falcon.HTTPError) -> errors.AbeyanceError:
    """The error of ours that says what falcon's says. Its texts are not taken over."""
    match error.status_code:
        case 404:
            return errors.NotFoundError("there is nothing at this address")
        case 413:
            return errors.RequestTooLargeError(1_048_576)
        case 415:
            return errors.UnsupportedMediaTypeError()
        case _:
            return errors.BadInputError("the request can't be read")


async def answer_refusal(_: Request, resp: Response, error: errors.AbeyanceError, __: object) -> None:
    """Answer an error that was raised on purpose."""
    row = find_row(type(error))
    if row is None:
        _answer_crash(resp, error)
        return
    if isinstance(error, errors.StoreUnavailableError):
        cause = type(error.__cause__).__name__
        _LOG.warning("request %s: the store can't be used: %s", resp.context.request_id, cause)
    resp.status = row.status
    for name, value in row.headers(error).items():
        resp.set_header(name, value)
    _set_body(resp, body_of(row, error, resp.context.request_id))


async def answer_falcon(req: Request, resp: Response, error: falcon.HTTPError, params: object) -> None:
    """Answer what falcon refused by itself."""
    if error.status_code >= 500:
        _answer_crash(resp, error)
    else:
        await answer_refusal(req, resp, ours(error), params)


async def answer_crash(_: Request, resp: Response, error: Exception, __: object) -> None:
    """Answer an error that nobody planned."""
    _answer_crash(resp, error)


def _answer_crash(resp: Response, error: Exception) -> None:
    request_id = resp.context.request_id
    _LOG.error("request %s failed: %s", request_id, _where(error))
    resp.status = INTERNAL_STATUS
    _set_body(resp, error_body(INTERNAL_CODE, INTERNAL_MESSAGE, request_id))


def _where(error: BaseException) -> str:
    """The types of the error and its causes, and the lines of code they came through; no text, no value."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        kind = f"{type(current).__module__}.{type(current).__qualname__}"
        parts.append(kind + "\n" + "".join(traceback.format_tb(current.__traceback__)))
        current = current.__cause__ or current.__context__
    return "caused by ".join(parts)


def _set_body(resp: Response, body: bytes) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.text = None
    resp.data = body
