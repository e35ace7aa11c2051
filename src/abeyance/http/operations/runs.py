"""The operations on runs."""

from abeyance import errors
from abeyance.http import answers, samples
from abeyance.http.operations.model import Answer, Operation
from abeyance.http.render import run
from abeyance.http.schemas import (
    CheckQuery,
    NoBody,
    ResumeBody,
    RunQuery,
    RunsQuery,
    StartRunBody,
)

_STOPPED = (errors.TenantSuspendedError, errors.TenantClosingError, errors.ProjectSuspendedError)
_SUSPENDED = run(samples.SUSPENDED)
_COMPLETED = run(samples.COMPLETED)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/runs",
        name="startRun",
        idempotent=True,
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
        refusals=(
            errors.UnknownFieldError,
            errors.InputInvalidError,
            errors.DefinitionNotFoundError,
            errors.WorkspaceNotFoundError,
            errors.ProjectNotFoundError,
            *_STOPPED,
        ),
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
        idempotent=True,
        summary="Answer a wait with the app's key",
        description=(
            "The run resumes in the same request. The answer is the run after it, running, ended or at "
            "its next wait, after at most 30 s. A field or parameter that isn't known is `400 bad-input`. "
            "With `?check=true` nothing is taken: the answer is `acceptable`, or what the same request "
            "without it would be refused with."
        ),
        body=ResumeBody,
        body_example=samples.RESUME_BODY,
        query=CheckQuery,
        strict_query=False,
        answers=(
            Answer(
                status=200,
                says="The run after it, or `acceptable`.",
                model=answers.Run,
                example=_COMPLETED,
                instead=answers.Acceptable,
            ),
        ),
        refusals=(
            errors.RunNotFoundError,
            errors.WaitTokenNotFoundError,
            errors.WaitTokenClosedError,
            errors.AnswerInvalidError,
            errors.ResumeNotSupportedError,
            *_STOPPED,
        ),
    ),
    Operation(
        method="POST",
        path="/v1/runs/{id}/cancel",
        name="cancelRun",
        idempotent=True,
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
        method="POST",
        path="/v1/runs/{id}/retry",
        name="retryRun",
        idempotent=True,
        summary="Try a parked run again",
        description=(
            "For a run that waits for `crash-loop`, `code-mismatch` or `history-damaged`: it is gone on with "
            "by the next process that has its code. Send no body, or `{}`."
        ),
        body=NoBody,
        body_example={},
        answers=(
            Answer(status=200, says="The run after it.", model=answers.Run, example=run(samples.RUNNING)),
        ),
        refusals=(
            errors.RunNotFoundError,
            errors.RunAlreadyTerminalError,
            errors.RunNotParkedError,
            errors.UnknownFieldError,
            *_STOPPED,
        ),
    ),
)  # fmt: skip
