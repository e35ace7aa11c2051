"""The shapes of requests about waits, and of what they are answered."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from abeyance.http.answers import PageOf, Time, ToolName
from abeyance.http.schemas import Body, Cursor, Limit, Name, RunId, Wire

WaitKind = Literal["token", "timer", "retry", "code-mismatch", "crash-loop"]
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def _moment(text: object) -> object:
    """The moment in UTC. A time without an offset is no moment."""
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        raise PydanticCustomError("pattern", "a time such as 2026-10-25T09:00:00Z")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise PydanticCustomError("pattern", "a time such as 2026-10-25T09:00:00Z") from None


MomentText = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]


class ExtendBody(Body):
    """The new deadline of the wait."""

    until: MomentText = Field(
        description=(
            "RFC 3339, with an offset. In the future, at most 24 days after the pause, within the run's time "
            "to live; it may be earlier than the old deadline."
        )
    )


class WaitsQuery(Wire):
    """Which open waits; all filters must hold."""

    kind: WaitKind | None = None
    name: Name | None = Field(default=None, description="The name that the tool gave the wait.")
    tool: Name | None = Field(default=None, description="The id of the tool that waits.")
    run: RunId | None = None
    limit: Limit = 50
    cursor: Cursor | None = Field(default=None, description="The `nextCursor` of the page before.")


class Tried(Wire):
    """One request with a link of the wait. `size` is the body's size in bytes, rounded up to 256 times a
    power of 4; `client` a keyed hash of the sender's address.
    """

    at: Time
    verdict: str = Field(description="`accepted`, `acceptable`, or the code of the refusal.")
    size: int | None = None
    client: str


class Attempts(Wire):
    """What was tried at the wait's links: how often there was each verdict, and the newest 50."""

    counts: dict[str, int]
    newest: list[Tried]


class WaitAnswer(Wire):
    """Something that a run waits for. A wait token's deadline is `timesOutAt`, another kind's `dueAt`."""

    wait_id: str
    run_id: RunId
    kind: WaitKind
    state: Literal["open", "answered", "waiting", "completed", "timed-out", "cancelled", "unused"]
    name: str | None = None
    tool: ToolName | None = None
    node_id: str | None = Field(default=None, description="The flow's step; in a script the operation.")
    line: str | None = Field(default=None, description="The line of code that waits, `module:number`.")
    created_at: Time = Field(description="When the run came to wait.")
    times_out_at: Time | None = None
    due_at: Time | None = None
    closed_at: Time | None = None
    links: int | None = Field(default=None, description="How many links of the wait token work.")
    workspace_id: str
    project_id: str


class ShownWait(WaitAnswer):
    """A wait with what was tried at its links."""

    attempts: Attempts


class RotatedWait(WaitAnswer):
    """A wait, and its new link: the only time that it is shown."""

    link: str


class WaitsPage(PageOf):
    """A page of open waits, oldest first."""

    data: list[WaitAnswer]
