"""The operations on API keys."""

from datetime import UTC, datetime

from abeyance import errors
from abeyance.engine.api_keys import ApiKeyView
from abeyance.http.keys_schemas import CreateKeyBody, KeyAnswer, KeysPage, KeysQuery, NewKeyAnswer
from abeyance.http.operations.model import Answer, Operation
from abeyance.http.render import page
from abeyance.http.resources.keys import render_key
from abeyance.http.schemas import NoBody
from abeyance.projections.views import Page

_KEY = ApiKeyView(
    id="key_06ek2h0u4g5q1c8v",
    name="the web shop",
    workspace="default",
    project="shop",
    grants=("execute", "read", "write"),
    executes=("shop.ship-order",),
    created_at=datetime(2026, 10, 25, 9, tzinfo=UTC),
    expires_at=datetime(2027, 1, 23, 9, tzinfo=UTC),
    revoked_at=None,
    created_by="deployment",
)
_REVOKED = ApiKeyView(
    id=_KEY.id,
    name=_KEY.name,
    workspace=_KEY.workspace,
    project=_KEY.project,
    grants=_KEY.grants,
    executes=_KEY.executes,
    created_at=_KEY.created_at,
    expires_at=_KEY.expires_at,
    revoked_at=datetime(2026, 11, 2, 16, 30, tzinfo=UTC),
    created_by=_KEY.created_by,
)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="POST",
        path="/v1/keys",
        name="createKey",
        summary="Make an API key",
        description=(
            "The reply holds the key's text, `key`, which is told this once: only its SHA-256 is kept. The "
            "key is for the workspace in which the request works. It can't have a grant, project, definition "
            "or time that the key which makes it hasn't: that is `403 permission-denied`."
        ),
        idempotent=True,
        body=CreateKeyBody,
        body_example={
            "name": "the web shop",
            "grants": ["read", "write", "execute"],
            "project": "shop",
            "executes": ["shop.ship-order"],
            "ttlMs": 7_776_000_000,
        },
        answers=(
            Answer(
                status=201,
                says="The key, with its text.",
                model=NewKeyAnswer,
                example=render_key(_KEY, "abk_" + "x" * 43),
            ),
        ),
        refusals=(errors.ProjectNotFoundError, errors.UnknownFieldError),
    ),
    Operation(
        method="GET",
        path="/v1/keys",
        name="listKeys",
        summary="List API keys",
        description="Oldest first, with those that were revoked or have expired; without any key's text.",
        query=KeysQuery,
        answers=(
            Answer(
                status=200,
                says="A page of keys.",
                model=KeysPage,
                example=page(Page(data=(_KEY,), next_cursor=None), render_key),
            ),
        ),
        refusals=(errors.InvalidCursorError,),
    ),
    Operation(
        method="DELETE",
        path="/v1/keys/{id}",
        name="revokeKey",
        summary="Revoke an API key",
        description=(
            "The key opens nothing from the next request on, in every process. One that was revoked before "
            "stays as it is. Send no body, or `{}`."
        ),
        idempotent=True,
        body=NoBody,
        body_example={},
        answers=(
            Answer(
                status=200, says="The key after it.", model=KeyAnswer, example=render_key(_REVOKED)
            ),
        ),
        refusals=(errors.ApiKeyNotFoundError, errors.UnknownFieldError),
    ),
)  # fmt: skip
