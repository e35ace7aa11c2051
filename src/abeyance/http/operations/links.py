"""The operations at a link, whose token is the credential."""

from abeyance import errors
from abeyance.http import answers, samples
from abeyance.http.operations.model import Answer, Operation
from abeyance.http.render import ACCEPTED
from abeyance.http.schemas import CheckQuery

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
            "The checks come in this order: 405, 429, 404, 503, 409 of the workspace or project, 415, "
            "413, 400 `bad-input`, then the wait's state, then the tool's output schema. A wrong link and an "
            "unknown one answer alike, the request's id apart. With `?check=true` nothing is taken: the "
            "answer is `acceptable`, or what the same request without it would be refused with. Other "
            "parameters are left alone."
        ),
        any_json=True,
        body_example=samples.ANSWER_BODY,
        query=CheckQuery,
        strict_query=False,
        open_to_all=True,
        answers=(
            Answer(
                status=200,
                says="The answer was taken, or would be.",
                model=answers.Accepted,
                example=ACCEPTED,
                instead=answers.Acceptable,
            ),
        ),
        refusals=(
            errors.RateLimitedError,
            errors.WaitTokenNotFoundError,
            errors.WaitTokenClosedError,
            errors.AnswerInvalidError,
            errors.TenantSuspendedError,
            errors.TenantClosingError,
            errors.ProjectSuspendedError,
        ),
    ),
)  # fmt: skip
