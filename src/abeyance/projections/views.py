"""What a reader sees of a run: plain, frozen data, made from rows and events by the queries of this package.

Content (`output`, failure messages, answers) is canonical JSON bytes, or `None` where there is none. No view
holds a link, a token or a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """A wait for another system's answer. `node` is the flow step's id, in a script the operation's."""

    token_id: str
    name: str | None
    tool_id: str
    tool_version: str
    node: str
    line: str
    created_at: datetime
    times_out_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherView:
    """A wait for something else: `what` is `timer`, `retry`, `code-mismatch`, `crash-loop`,
    `history-damaged`, `queued` (later also `child-run`, `credentials`). `details` are ids, lines and short
    texts.
    """

    what: str
    node: str | None = None
    due_at: datetime | None = None
    details: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFor:
    """What a suspended run waits for. Approvals and signals are always there, and empty for now."""

    tokens: tuple[TokenView, ...] = ()
    other: tuple[OtherView, ...] = ()
    approvals: tuple[object, ...] = ()
    signals: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """Why a run failed: a stable code, a message (content, may be erased), the flow step it failed in."""

    code: str
    message: str | None
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as `GET /v1/runs/{id}` shows it. `status` is `pending`, `running`, `suspended`, `completed`,
    `failed` or `cancelled`; `kind` is `flow`, `script` or `agent`; `version` is the definition's. All three
    are `unknown` of a run whose first event is damaged.
    """

    id: UUID
    status: str
    kind: str
    definition_id: str
    version: str
    workspace: str
    project: str
    labels: Mapping[str, str]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    completed_at: datetime | None = None
    output: bytes | None = None
    failure: FailureView | None = None
    parent: UUID | None = None
    waiting_for: WaitingFor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event of a run. `sequence` is its version from 1, `kind` its topic, `payload` the signed `data`,
    `digest` its leaf hash in hex; `content` only if it was asked for and still exists.
    """

    sequence: int
    kind: str
    timestamp: datetime
    node: str | None
    payload: Mapping[str, object]
    digest: str
    kid: str
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One event in the order of the whole journal. `index` is its sealed index from 0; `answer` the exact
    size and SHA-256 of an answer as long as it exists, else `None`.
    """

    index: int
    run_id: UUID
    entry: JournalEntry
    answer: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """A page of a list; `next_cursor` is opaque text, `None` on the last page."""

    data: tuple[Item, ...]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        """Whether there is another page."""
        return self.next_cursor is not None
