"""The shapes of API keys on the wire."""

from typing import Annotated

from pydantic import Field, StringConstraints

from abeyance.engine.api_keys import MAX_EXECUTES, MAX_TTL
from abeyance.http.answers import PageOf, Time
from abeyance.http.schemas import Body, Cursor, Limit, Name, Wire
from abeyance.journal.events import Grant

DefinitionId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[a-z0-9._-]+$")]
_MAX_TTL_MS = int(MAX_TTL.total_seconds() * 1000)


class CreateKeyBody(Body):
    """Makes a key. Nothing in it can be more than the maker's own key allows."""

    name: Name = Field(description="What people call the key. Kept in a table, in no event.")
    grants: Annotated[list[Grant], Field(min_length=1, max_length=7)]
    project: Name | None = Field(
        default=None, description="The one project that the key is for. Left out: the whole workspace."
    )
    executes: Annotated[list[DefinitionId], Field(max_length=MAX_EXECUTES)] | None = Field(
        default=None, description="The ids of the definitions that `execute` covers. Left out: all."
    )
    ttl_ms: Annotated[int, Field(ge=1, le=_MAX_TTL_MS)] | None = Field(
        default=None, description="How long the key is good. Left out: until it is revoked."
    )


class KeysQuery(Wire):
    """Which page of keys."""

    limit: Limit = 50
    cursor: Cursor | None = None


class KeyAnswer(Wire):
    """An API key, without its text."""

    id: str
    name: str
    workspace_id: str
    project_id: str | None = None
    grants: list[str]
    executes: list[str] | None = None
    created_at: Time
    expires_at: Time | None = None
    revoked_at: Time | None = None
    created_by: str | None = None


class NewKeyAnswer(KeyAnswer):
    """A key that was just made. `key` is its text, which is told this once."""

    key: str


class KeysPage(PageOf):
    """A page of keys, oldest first."""

    data: list[KeyAnswer]
