"""What the API answers, as bytes: runs, journals, audit records, lists.

The bytes are put together by hand. Outputs and contents are canonical JSON already and are spliced in as they
are, so that numbers keep their text and nothing is parsed twice. `abeyance.http.schemas` has the same
shapes as models, and `tests/api/test_render.py` holds the two together.

Times are RFC 3339 in UTC with milliseconds and `Z`. What isn't there is left out, not `null`.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from json.encoder import encode_basestring
from typing import TypeVar

from abeyance.projections.views import (
    AuditRecord,
    FailureView,
    JournalEntry,
    OtherView,
    Page,
    RunView,
    TokenView,
    WaitingFor,
)

Item = TypeVar("Item")

ACCEPTED = b'{"status":"accepted"}'
ACCEPTABLE = b'{"status":"acceptable"}'


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
_quote: Callable[[str], str] = encode_basestring


def dump(value: object) -> bytes:
    """JSON of small values that hold no answer of anybody's: no floats, so nothing loses its text."""
    return _encode(value).encode()


def format_time(moment: datetime) -> str:
    """`moment`, which is UTC, as `2026-10-25T09:00:00.481Z`: cut off, not rounded."""
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def run(view: RunView) -> bytes:
    """A run as `GET /v1/runs/{id}` shows it."""
    head = (
        f'{{"id":"{view.id}","status":{_quote(view.status)}'
        f'{_definition(view)},"version":{_quote(view.version)}'
        f',"workspaceId":{_quote(view.workspace)},"projectId":{_quote(view.project)}'
        f',"labels":{{{",".join(f"{_quote(name)}:{_quote(text)}" for name, text in view.labels.items())}}}'
        f',"createdAt":"{format_time(view.created_at)}","updatedAt":"{format_time(view.updated_at)}"'
        f',"expiresAt":"{format_time(view.expires_at)}"'
    )
    if view.completed_at is not None:
        head += f',"completedAt":"{format_time(view.completed_at)}"'
    if view.failure is not None:
        head += f',"failure":{_failure(view.failure)}'
    if view.parent is not None:
        head += f',"parentRunId":"{view.parent}"'
    if view.waiting_for is not None and view.status == "suspended":
        head += f',"waitingFor":{_waiting_for(view.waiting_for)}'
    if view.output is None:
        return head.encode() + b"}"
    return b"".join((head.encode(), b',"output":', view.output, b"}"))


def _definition(view: RunView) -> str:
    return "" if view.kind == "unknown" else f',"{view.kind}Id":{_quote(view.definition_id)}'


def _failure(failure: FailureView) -> str:
    message = "null" if failure.message is None else _quote(failure.message)
    return f'{{"code":{_quote(failure.code)},"message":{message}{_optional("nodeId", failure.node)}}}'


def _waiting_for(waiting: WaitingFor) -> str:
    approvals = _encode(waiting.approvals) if waiting.approvals else "[]"
    signals = _encode(waiting.signals) if waiting.signals else "[]"
    other = ",".join(map(_other, waiting.other))
    tokens = ",".join(map(_token, waiting.tokens))
    return f'{{"approvals":{approvals},"other":[{other}],"tokens":[{tokens}],"signals":{signals}}}'


def _token(token: TokenView) -> str:
    return (
        f'{{"tokenId":{_quote(token.token_id)}{_optional("name", token.name)}'
        f',"tool":{{"id":{_quote(token.tool_id)},"version":{_quote(token.tool_version)}}}'
        f',"nodeId":{_quote(token.node)},"line":{_quote(token.line)}'
        f',"createdAt":"{format_time(token.created_at)}","timesOutAt":"{format_time(token.times_out_at)}"}}'
    )


def _other(other: OtherView) -> str:
    due = "" if other.due_at is None else f',"dueAt":"{format_time(other.due_at)}"'
    details = f',"details":{_encode(other.details)}' if other.details else ""
    return f'{{"what":{_quote(other.what)}{_optional("nodeId", other.node)}{due}{details}}}'


def _optional(name: str, text: str | None) -> str:
    return "" if text is None else f',"{name}":{_quote(text)}'


def journal_entry(entry: JournalEntry) -> bytes:
    """An event of a run as its journal shows it."""
    head = _entry(entry).encode()
    if entry.content is None:
        return head + b"}"
    return b"".join((head, b',"content":', entry.content, b"}"))


def _entry(entry: JournalEntry) -> str:
    return (
        f'{{"sequence":{entry.sequence},"kind":{_quote(entry.kind)}'
        f',"timestamp":"{format_time(entry.timestamp)}"{_optional("nodeId", entry.node)}'
        f',"payload":{_encode(entry.payload)}'
    )


def audit_record(record: AuditRecord) -> bytes:
    """An event as the audit log shows it.

    Where the event holds an answer, `answer` is its exact size and SHA-256, or `{"erased": true}`.
    """
    entry = record.entry
    answer = ""
    if record.answer is not None:
        answer = f',"answer":{_encode(record.answer)}'
    elif "answer" in entry.payload:
        answer = ',"answer":{"erased":true}'
    return (
        f'{{"index":{record.index},"runId":"{record.run_id}",{_entry(entry)[1:]}'
        f',"digest":{_quote(entry.digest)},"kid":{_quote(entry.kid)}{answer}}}'
    ).encode()


def page(items: Page[Item], render: Callable[[Item], bytes]) -> bytes:
    """A page of a list, each item as `render` writes it."""
    data = b",".join(map(render, items.data))
    if items.next_cursor is None:
        return b'{"data":[' + data + b'],"hasMore":false}'
    return b'{"data":[' + data + b'],"hasMore":true,"nextCursor":' + _quote(items.next_cursor).encode() + b"}"
