"""How an operation of the API is described: one entry a route and method."""

from dataclasses import dataclass

from abeyance import errors
from abeyance.http.errors import MethodNotAllowedError
from abeyance.http.schemas import Body, Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered when nothing is refused. `example` is JSON, or text if there is no `model`. `instead`
    is another shape that the answer may have. `media` is its media type where it is no JSON.
    """

    status: int
    says: str
    model: type[Wire] | None
    example: bytes
    title: str = "example"
    instead: type[Wire] | None = None
    media: str = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one route. `body` is the model of its body, `any_json` says that it is any JSON value,
    `strict_query` that a parameter which isn't in `query` is an unknown field, `idempotent` that the route
    takes an `Idempotency-Key`.

    `refusals` are those of the route itself; what every route may answer is added by `every_refusal`.
    """

    method: str
    path: str
    name: str
    summary: str
    description: str
    answers: tuple[Answer, ...]
    refusals: tuple[type[errors.AbeyanceError], ...] = ()
    body: type[Body] | None = None
    any_json: bool = False
    body_example: object = None
    query: type[Wire] | None = None
    strict_query: bool = True
    open_to_all: bool = False
    uses_store: bool = True
    idempotent: bool = False

    def every_refusal(self) -> tuple[type[errors.AbeyanceError], ...]:
        """All that this operation may refuse with, `500` apart."""
        found = list(self.refusals)
        if self.body or self.any_json:
            found += [errors.UnsupportedMediaTypeError, errors.RequestTooLargeError, errors.BadInputError]
        if self.query:
            found.append(errors.BadInputError)
        if self.query and self.strict_query:
            found.append(errors.UnknownFieldError)
        if self.idempotent:
            found += [
                errors.BadInputError,
                errors.IdempotencyKeyMismatchError,
                errors.IdempotencyKeyInFlightError,
                errors.IdempotencyReplayWithheldError,
            ]
        if not self.open_to_all:
            found += [
                errors.UnauthenticatedError,
                errors.PermissionDeniedError,
                errors.WorkspaceNotFoundError,
            ]
        if self.uses_store:
            found.append(errors.StoreUnavailableError)
        return tuple(dict.fromkeys([*found, MethodNotAllowedError]))
