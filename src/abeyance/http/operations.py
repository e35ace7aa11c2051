"""Every operation of the API, as the reference describes it: one entry a route and method.

`tests/api/test_openapi.py` holds this list, the routes of `abeyance.http.app` and the table of
`abeyance.http.errors` together.
"""

from dataclasses import dataclass

from abeyance import errors
from abeyance.http import answers, samples
from abeyance.http.errors import MethodNotAllowedError
from abeyance.http.render import ACCEPTED, run
from abeyance.http.schemas import (
    AuditQuery,
    Body,
    JournalQuery,
    NoBody,
    ResumeBody,
    RunQuery,
    RunsQuery,
    StartRunBody,
    Wire,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered when nothing is refused. `example` is JSON, or text if there is no `model`."""

    status: int
    says: str
    model: type[Wire] | None
    example: bytes
    title: str = "example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one route. `body` is the model of its body, `any_json` says that it is any JSON value.

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
    open_to_all: bool = False
    uses_store: bool = True

    def every_refusal(self) -> tuple[type[errors.AbeyanceError], ...]:
        """All that this operation may refuse with, `500` apart."""
        found = list(self.refusals)
        if self.body or self.any_json:
            found += [errors.UnsupportedMediaTypeError, errors.RequestTooLargeError, errors.BadInputError]
        if self.query:
            found += [errors.BadInputError, errors.UnknownFieldError]
        if not self.open_to_all:
            found += [errors.UnauthenticatedError, errors.PermissionDeniedError]
        if self.uses_store:
            found.append(errors.StoreUnavailableError)
        return tuple(dict.fromkeys([*found, MethodNotAllowedError]))


_SUSPENDED = run(samples.SUSPENDED)
_COMPLETED = run(samples.COMPLETED)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/wait-tokens/{token}/complete",
        name="completeWaitToken",
        summary="Answer a wait at its link",
        description=(
            "The link is the credential: no key is asked for, and an Authorization header is ignored. "
            "The body is the answer, the tool's output; an empty body is `{}`. `200` comes once the "
            "answer is on disk, and the run goes on behind it. The same answer again is accepted again. "
            "The checks come in this order: 405, 429, 404, 503, 415, 413, 400 `bad-input`, then the "
            "wait's state, then the tool's output schema. A wrong link and an unknown one answer alike, "
            "the request's id apart."
        ),
        any_json=True,
        body_example=samples.ANSWER_BODY,
        open_to_all=True,
        answers=(Answer(status=200, says="The answer was taken.", model=answers.Accepted, example=ACCEPTED),),
        refusals=(
            errors.RateLimitedError,
            errors.WaitTokenNotFoundError,
            errors.WaitTokenClosedError,
            errors.AnswerInvalidError,
        ),
    ),
    Operation(
        method="POST",
        path="/v1/runs",
        name="startRun",
        summary="Start a run",
        description=(
            "Waits until the run ends or suspends, at most 30 s; with `\"wait\": false`, past that time, "
            "or when too many requests wait already, the answer is `202` with the run as it is."
        ),
        body=StartRunBody,
        body_example=samples.START_BODY,
        answers=(
            Answer(status=201, says="The run has ended or waits.", model=answers.Run, example=_SUSPENDED),
            Answer(status=202, says="The run goes on.", model=answers.Run, example=run(samples.RUNNING)),
        ),
        refusals=(errors.UnknownFieldError, errors.InputInvalidError, errors.DefinitionNotFoundError),
    ),
    Operation(
        method="GET",
        path="/v1/runs",
        name="listRuns",
        summary="List runs, newest first",
        description="The list follows the journal, and may be a moment behind it.",
        query=RunsQuery,
        answers=(
            Answer(status=200, says="A page of runs.", model=answers.RunsPage, example=samples.RUNS_PAGE),
        ),
        refusals=(errors.InvalidCursorError,),
    ),
    Operation(
        method="GET",
        path="/v1/runs/{id}",
        name="getRun",
        summary="Get a run",
        description="The run as it is now, never behind its journal; with `wait=true`, once it rests.",
        query=RunQuery,
        answers=(
            Answer(status=200, says="The run.", model=answers.Run, example=_SUSPENDED),
        ),
        refusals=(errors.RunNotFoundError,),
    ),
    Operation(
        method="POST",
        path="/v1/runs/{id}/resume",
        name="resumeRun",
        summary="Answer a wait with the app's key",
        description=(
            "The run resumes in the same request. The answer is the run after it, running, ended or at "
            "its next wait, after at most 30 s. A field that the body doesn't take is `400 bad-input`."
        ),
        body=ResumeBody,
        body_example=samples.RESUME_BODY,
        answers=(Answer(status=200, says="The run after it.", model=answers.Run, example=_COMPLETED),),
        refusals=(
            errors.RunNotFoundError,
            errors.WaitTokenNotFoundError,
            errors.WaitTokenClosedError,
            errors.AnswerInvalidError,
            errors.ResumeNotSupportedError,
        ),
    ),
    Operation(
        method="POST",
        path="/v1/runs/{id}/cancel",
        name="cancelRun",
        summary="Cancel a run",
        description="Cancels the run and everything it waits for. Send no body, or `{}`.",
        body=NoBody,
        body_example={},
        answers=(
            Answer(
                status=200, says="The run after it.", model=answers.Run, example=run(samples.CANCELLED)
            ),
        ),
        refusals=(errors.RunNotFoundError, errors.RunAlreadyTerminalError, errors.UnknownFieldError),
    ),
    Operation(
        method="GET",
        path="/v1/runs/{id}/journal",
        name="getRunJournal",
        summary="Read a run's journal",
        description=(
            "The run's events, oldest first: `sequence` counts from 1, `payload` is what was signed. The "
            "next page begins `after` this one's `nextCursor`."
        ),
        query=JournalQuery,
        answers=(
            Answer(
                status=200, says="A page of events.", model=answers.JournalPage, example=samples.JOURNAL_PAGE
            ),
        ),
        refusals=(errors.RunNotFoundError,),
    ),
    Operation(
        method="GET",
        path="/v1/audit/records",
        name="listAuditRecords",
        summary="Read the audit log",
        description=(
            "The sealed events of all runs in the journal's order. Where an event holds an answer, "
            "`answer` has its exact size and SHA-256 as long as it exists, and `erased` after. The next "
            "page begins `after` this one's `nextCursor`."
        ),
        query=AuditQuery,
        answers=(
            Answer(
                status=200, says="A page of records.", model=answers.AuditPage, example=samples.AUDIT_PAGE
            ),
        ),
    ),
    Operation(
        method="GET",
        path="/health",
        name="getHealth",
        summary="Whether the process answers",
        description="Asks nothing of the store.",
        open_to_all=True,
        uses_store=False,
        answers=(
            Answer(status=200, says="It does.", model=answers.Health, example=b'{"status":"ok"}'),
        ),
    ),
    Operation(
        method="GET",
        path="/ready",
        name="getReadiness",
        summary="Whether requests should be sent here",
        description="Reads the store. `503` says what is wrong.",
        open_to_all=True,
        uses_store=False,
        answers=(
            Answer(status=200, says="They should.", model=answers.Readiness, example=b'{"status":"ready"}'),
            Answer(
                status=503,
                says="They should not; `Retry-After` says when to ask again.",
                model=answers.Readiness,
                example=b'{"status":"not-ready","problems":["the clock is 4 s off the store\'s"]}',
            ),
        ),
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="getMetrics",
        summary="The counters of this process",
        description="In the text format of Prometheus.",
        uses_store=False,
        answers=(
            Answer(
                status=200,
                says="Counters and gauges.",
                model=None,
                example=b"abeyance_http_waiting_requests 3\n",
            ),
        ),
    ),
    Operation(
        method="GET",
        path="/v1/openapi.json",
        name="getOpenApi",
        summary="This API's description",
        description="OpenAPI 3.1.",
        open_to_all=True,
        uses_store=False,
        answers=(
            Answer(
                status=200, says="The document.", model=answers.Document, example=b'{"openapi":"3.1.0"}'
            ),
        ),
    ),
)  # fmt: skip
