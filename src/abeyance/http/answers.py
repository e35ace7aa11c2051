"""The shapes of what the API answers, for the reference and for tests.

`abeyance.http.render` writes the bytes; `tests/api/test_render.py` holds its bytes to these models. A
field that may be missing is left out where it is, never `null`; the exceptions say so.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema

from abeyance.http.schemas import RunId, Status, Wire

Time = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"),
    Field(json_schema_extra={"format": "date-time"}),
]
Json = Annotated[Any, WithJsonSchema({})]


class ToolName(Wire):
    """A tool and its version."""

    id: str
    version: str


class Token(Wire):
    """A wait for another system's answer. Its link is never shown."""

    token_id: str
    name: str | None = None
    tool: ToolName
    node_id: str = Field(description="The flow's step; in a script the operation.")
    line: str = Field(description="The line of code that waits, `module:number`.")
    created_at: Time
    times_out_at: Time


class Other(Wire):
    """A wait for something else."""

    what: str = Field(
        description="`timer`, `retry`, `code-mismatch`, `crash-loop`, `history-damaged`, `queued`."
    )
    node_id: str | None = None
    due_at: Time | None = None
    details: dict[str, str] | None = None


class WaitingForAnswer(Wire):
    """What a suspended run waits for."""

    approvals: list[Json]
    other: list[Other]
    tokens: list[Token]
    signals: list[Json]


class FailureAnswer(Wire):
    """Why a run failed. `message` is `null` where it was erased or there is none."""

    code: str
    message: str | None
    node_id: str | None = None


class Run(Wire):
    """A run. It has one of `flowId`, `scriptId`, `agentId`; `waitingFor` only while it is suspended."""

    id: RunId
    status: Status
    flow_id: str | None = None
    script_id: str | None = None
    agent_id: str | None = None
    version: str
    workspace_id: str
    project_id: str
    labels: dict[str, str]
    created_at: Time
    updated_at: Time
    completed_at: Time | None = None
    expires_at: Time
    output: Json = None
    failure: FailureAnswer | None = None
    parent_run_id: RunId | None = None
    waiting_for: WaitingForAnswer | None = None


class PageOf(Wire):
    """What every page of a list has."""

    has_more: bool
    next_cursor: str | None = None


class RunsPage(PageOf):
    """A page of runs, newest first."""

    data: list[Run]


class Entry(Wire):
    """One event of a run. `payload` is what was signed; `content` is there if it was asked for and still
    exists.
    """

    sequence: int
    kind: str
    timestamp: Time
    node_id: str | None = None
    payload: dict[str, Json]
    content: Json = None


class JournalPage(PageOf):
    """A page of a run's journal; `nextCursor` is the next page's `after`."""

    data: list[Entry]


class AnswerDigest(Wire):
    """The exact size in bytes and SHA-256 of an answer's canonical JSON, or that it was erased."""

    size: int | None = None
    sha256: str | None = None
    erased: Literal[True] | None = None


class Record(Wire):
    """One event in the order of the whole journal. `digest` is its hash in the log, `kid` its signer's
    key.
    """

    index: int
    run_id: RunId
    sequence: int
    kind: str
    timestamp: Time
    node_id: str | None = None
    payload: dict[str, Json]
    digest: str
    kid: str
    answer: AnswerDigest | None = None


class AuditPage(PageOf):
    """A page of the audit log; `nextCursor` is the next page's `after`."""

    data: list[Record]


class Accepted(Wire):
    """The answer is on disk. It says nothing about the run."""

    status: Literal["accepted"]


class Acceptable(Wire):
    """The answer would be taken now; nothing was."""

    status: Literal["acceptable"]


class Health(Wire):
    """The process answers."""

    status: Literal["ok"]


class Readiness(Wire):
    """Whether the process can serve, and if not, why."""

    status: Literal["ready", "not-ready"]
    problems: list[str] | None = None


class ProblemIssue(Wire):
    """Where a value breaks which rule: a JSON pointer (RFC 6901) and a JSON Schema keyword. A member that is
    missing has the path that it would have. Never the value.
    """

    path: str
    rule: str


class ProblemDetails(Wire):
    """What the code alone doesn't say."""

    issues: list[ProblemIssue] | None = None
    state: (
        Literal[
            "completed",
            "timed-out",
            "cancelled",
            "unused",
            "answered",
            "active",
            "suspended",
            "closing",
            "closed",
        ]
        | None
    ) = Field(default=None, description="The state of a wait; of a workspace or project that isn't changed.")
    status: Status | None = None
    limit_bytes: int | None = None


class Problem(Wire):
    """A refusal. `code` is the contract, `message` is for people."""

    code: str
    message: str
    details: ProblemDetails | None = None
    request_id: str


class ProblemBody(Wire):
    """The body of every refusal."""

    error: Problem


class Document(Wire):
    """An OpenAPI document."""

    model_config = ConfigDict(extra="allow")

    openapi: str
