"""The operations on what runs wait for."""

from abeyance import errors
from abeyance.http import waits_schemas as answers
from abeyance.http.operations.model import Answer, Operation
from abeyance.http.render import page
from abeyance.http.samples import RUN_ID, TOKEN_ID
from abeyance.http.schemas import NoBody
from abeyance.http.waits_render import rotated, shown, wait
from abeyance.http.waits_samples import EXTEND_BODY, LINK, SHOWN, WAIT
from abeyance.projections.views import Page

_WAIT = "/v1/runs/{id}/waits/{wait}"
_NAMED = (
    f"A wait's id is its `waitId`, for example `{TOKEN_ID}` of run `{RUN_ID}`; its colons may be sent as "
    "they are or as `%3A`."
)
_CHANGES = (
    errors.RunNotFoundError,
    errors.WaitTokenNotFoundError,
    errors.WaitTokenClosedError,
    errors.WaitChangeNotSupportedError,
    errors.TenantSuspendedError,
    errors.TenantClosingError,
    errors.ProjectSuspendedError,
    errors.UnknownFieldError,
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/v1/waits",
        name="listWaits",
        summary="List what runs wait for, oldest first",
        description=(
            "All open waits that their runs have reached. The list follows the journal, and may be a moment "
            "behind it."
        ),
        query=answers.WaitsQuery,
        answers=(
            Answer(
                status=200,
                says="A page of waits.",
                model=answers.WaitsPage,
                example=page(Page(data=(WAIT,), next_cursor=None), wait),
            ),
        ),
        refusals=(errors.InvalidCursorError,),
    ),
    Operation(
        method="GET",
        path=_WAIT,
        name="getWait",
        summary="Get a wait",
        description=(
            "The wait, open or closed, never behind its journal, with the newest 50 attempts at its links. "
            f"{_NAMED} Attempts are written behind the replies and may come a moment later; requests over "
            "the limit aren't among them."
        ),
        answers=(
            Answer(status=200, says="The wait.", model=answers.ShownWait, example=shown(SHOWN)),
        ),
        refusals=(errors.RunNotFoundError, errors.WaitTokenNotFoundError),
    ),
    Operation(
        method="POST",
        path=f"{_WAIT}/extend",
        name="extendWait",
        idempotent=True,
        summary="Move a wait's deadline",
        description=(
            "Moves the deadline of a wait token that the run has reached, later or earlier: to a moment in "
            "the future, at most 24 days after the pause, and within the run's time to live."
        ),
        body=answers.ExtendBody,
        body_example=EXTEND_BODY,
        answers=(
            Answer(status=200, says="The wait after it.", model=answers.WaitAnswer, example=wait(WAIT)),
        ),
        refusals=(*_CHANGES, errors.WaitTokenNotReachedError),
    ),
    Operation(
        method="POST",
        path=f"{_WAIT}/rotate",
        name="rotateLink",
        idempotent=True,
        summary="Replace a wait's links",
        description=(
            "Makes a new link to the wait and kills all older ones: they answer as unknown links do. The "
            "wait stays open. The reply is the only place where the new link is shown; it isn't kept for an "
            "Idempotency-Key. Send no body, or `{}`."
        ),
        body=NoBody,
        body_example={},
        answers=(
            Answer(
                status=200,
                says="The wait after it, and its new link.",
                model=answers.RotatedWait,
                example=rotated(WAIT, LINK),
            ),
        ),
        refusals=_CHANGES,
    ),
    Operation(
        method="POST",
        path=f"{_WAIT}/revoke",
        name="revokeLinks",
        idempotent=True,
        summary="Kill a wait's links",
        description=(
            "Kills all links to the wait, which stays open: the app's key can answer it, and a rotation "
            "makes a new link. Send no body, or `{}`."
        ),
        body=NoBody,
        body_example={},
        answers=(
            Answer(status=200, says="The wait after it.", model=answers.WaitAnswer, example=wait(WAIT)),
        ),
        refusals=_CHANGES,
    ),
)  # fmt: skip
