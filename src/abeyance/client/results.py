"""What the client returns: frozen data, read from the API's JSON.

Fields that the API adds later are left aside here and are still in `source`, the JSON text as it came, in
which every number has its digits. A field that must be there and isn't raises `UnexpectedReply`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from abeyance.client.errors import UnexpectedReply

Json = Any
Item = TypeVar("Item")

ENDED = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool and its version."""

    id: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitToken:
    """A wait for another system's answer. `node_id` is the flow's step, in a script the operation."""

    token_id: str
    name: str | None
    tool: ToolRef
    node_id: str
    line: str | None
    created_at: datetime
    times_out_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWait:
    """A wait for something else: `what` is `timer`, `retry`, `queued`, `code-mismatch`, …"""

    what: str
    node_id: str | None
    due_at: datetime | None
    details: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFor:
    """What a suspended run waits for. Approvals and signals are as the API has them."""

    tokens: tuple[WaitToken, ...]
    other: tuple[OtherWait, ...]
    approvals: tuple[Mapping[str, Json], ...]
    signals: tuple[Mapping[str, Json], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed: a stable code, a message that may have been erased, the step."""

    code: str
    message: str | None
    node_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run. `kind` is `flow`, `script` or `agent`, `definition_id` and `version` are the definition's."""

    id: str
    status: str
    kind: str
    definition_id: str
    version: str
    workspace_id: str
    project_id: str
    labels: Mapping[str, str]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    completed_at: datetime | None
    output: Json
    failure: Failure | None
    parent_run_id: str | None
    waiting_for: WaitingFor | None
    source: str = field(repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen in it."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEvent:
    """One event of a run: `payload` is what was signed, `content` what was said, if it was asked for."""

    sequence: int
    kind: str
    timestamp: datetime
    node_id: str | None
    payload: Mapping[str, Json]
    content: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One event in the order of the whole journal. `answer` is an answer's exact size and SHA-256."""

    index: int
    run_id: str
    event: JournalEvent
    digest: str
    kid: str
    answer: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of runs, newest first; `next_cursor` asks for the next one."""

    data: tuple[Run, ...]
    next_cursor: str | None
    has_more: bool
    source: str = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPage:
    """A page of a run's journal; if `has_more`, ask again with `after` = the last `sequence`."""

    data: tuple[JournalEvent, ...]
    has_more: bool
    source: str = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """A page of the audit log; if `has_more`, ask again with `after` = the last `index`."""

    data: tuple[AuditRecord, ...]
    has_more: bool
    source: str = field(repr=False, compare=False)


def parse_acceptable(reply: Json) -> None:
    """Return if the reply says that the answer would be taken."""
    if not isinstance(reply, dict) or reply.get("status") != "acceptable":
        raise UnexpectedReply("the reply isn't what a check is told; this server may know none")


def parse_run(reply: Json, source: str) -> Run:
    """The run in a reply."""
    return checked(lambda: _run(reply, source))


def parse_runs(reply: Json, source: str) -> RunPage:
    """The page of runs in a reply. Only the page has the source: the runs in it have none."""
    return checked(
        lambda: RunPage(
            data=tuple(_run(run, "") for run in reply["data"]),
            next_cursor=reply.get("nextCursor"),
            has_more=bool(reply["hasMore"]),
            source=source,
        )
    )


def parse_journal(reply: Json, source: str) -> JournalPage:
    """The page of a journal in a reply."""
    return checked(
        lambda: JournalPage(
            data=tuple(map(_event, reply["data"])), has_more=bool(reply["hasMore"]), source=source
        )
    )


def parse_audit(reply: Json, source: str) -> AuditPage:
    """The page of the audit log in a reply."""
    return checked(
        lambda: AuditPage(
            data=tuple(map(_record, reply["data"])), has_more=bool(reply["hasMore"]), source=source
        )
    )


_UNKNOWN = "unknown"


def checked(parse: Callable[[], Item]) -> Item:
    """What `parse` makes of a reply. Raises `UnexpectedReply` if the reply lacks something."""
    try:
        return parse()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnexpectedReply(
            "the reply lacks what abeyance's API promises; is its version newer?"
        ) from error


def _run(reply: Json, source: str) -> Run:
    kind = next((kind for kind in ("flow", "script", "agent") if f"{kind}Id" in reply), "")
    if not kind and reply["version"] == _UNKNOWN:  # its first event is damaged
        kind = _UNKNOWN
    failure, waiting = reply.get("failure"), reply.get("waitingFor")
    return Run(
        id=reply["id"],
        status=reply["status"],
        kind=kind,
        definition_id=reply[f"{kind}Id"] if kind != _UNKNOWN else kind,
        version=reply["version"],
        workspace_id=reply["workspaceId"],
        project_id=reply["projectId"],
        labels=reply["labels"],
        created_at=parse_time(reply["createdAt"]),
        updated_at=parse_time(reply["updatedAt"]),
        expires_at=parse_time(reply["expiresAt"]),
        completed_at=parse_time_or_none(reply.get("completedAt")),
        output=reply.get("output"),
        failure=_failure(failure) if failure is not None else None,
        parent_run_id=reply.get("parentRunId"),
        waiting_for=_waiting_for(waiting) if waiting is not None else None,
        source=source,
    )


def _failure(reply: Json) -> Failure:
    return Failure(code=reply["code"], message=reply.get("message"), node_id=reply.get("nodeId"))


def _waiting_for(reply: Json) -> WaitingFor:
    return WaitingFor(
        tokens=tuple(map(_token, reply["tokens"])),
        other=tuple(map(_other, reply["other"])),
        approvals=tuple(reply["approvals"]),
        signals=tuple(reply["signals"]),
    )


def _token(reply: Json) -> WaitToken:
    return WaitToken(
        token_id=reply["tokenId"],
        name=reply.get("name"),
        tool=ToolRef(reply["tool"]["id"], reply["tool"]["version"]),
        node_id=reply["nodeId"],
        line=reply.get("line"),
        created_at=parse_time(reply["createdAt"]),
        times_out_at=parse_time(reply["timesOutAt"]),
    )


def _other(reply: Json) -> OtherWait:
    return OtherWait(
        what=reply["what"],
        node_id=reply.get("nodeId"),
        due_at=parse_time_or_none(reply.get("dueAt")),
        details=reply.get("details") or {},
    )


def _event(reply: Json) -> JournalEvent:
    return JournalEvent(
        sequence=reply["sequence"],
        kind=reply["kind"],
        timestamp=parse_time(reply["timestamp"]),
        node_id=reply.get("nodeId"),
        payload=reply.get("payload") or {},
        content=reply.get("content"),
    )


def _record(reply: Json) -> AuditRecord:
    return AuditRecord(
        index=reply["index"],
        run_id=reply["runId"],
        event=_event(reply),
        digest=reply["digest"],
        kid=reply["kid"],
        answer=reply.get("answer"),
    )


def parse_time(text: str) -> datetime:
    """A moment in a reply."""
    return datetime.fromisoformat(text)


def parse_time_or_none(text: str | None) -> datetime | None:
    """A moment in a reply that may have none."""
    return None if text is None else parse_time(text)
