"""The list of open waits: what `GET /v1/waits` shows, filters and orders by, one row an open wait.

A row is made when a wait is opened and goes when it is closed. It is listed from when the run came to wait
for it: a wait token once its run has paused on it. Oldest first is by that time, then by run and by the
event that opened the wait. Name, tool and every kind but the usual one have an index that ends in that order,
so a page costs the same wherever it is; other filters are compared as the list is read.

An event that is damaged changes no row; `projections check` finds what is missing.
"""

import base64
import binascii
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from abeyance.errors import HistoryDamagedError, InvalidCursorError
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.store import EventRow, SealedEvent
from abeyance.projections.read_models import Place, ReadModelStore, to_uuid
from abeyance.projections.views import Page
from abeyance.projections.wait_view import WaitView, describe, id_of, kind_of
from abeyance.world import from_micros, to_micros

_log = logging.getLogger("abeyance.projections")

_LIVE = "(SELECT generation FROM read_models WHERE name = 'waits' AND live)"
_COLUMNS = "run_id, opened, key, workspace, project, since, due, node, tool, tool_version, name, line"
_FROM = f"SELECT {_COLUMNS} FROM waits_list WHERE generation = {_LIVE} AND since IS NOT NULL"

# What a partial index's condition must be told, since a value isn't known when a plan is made.
_INDEXED = {"name": " AND name <> ''", "tool": " AND tool <> ''"}

What = Literal["open", "reach", "move", "close", "close-call", "close-losers", "close-all"]


class WaitChange(NamedTuple):
    """What an event does to the list. Rows are named by run and `key`, the key of `RunState.waits`.

    `open`: a new row, or another one in place of that with this key. `reach`: `since`, `due`, `name` and
    `line` are set. `move`: `due` is. `close`: the row goes. `close-call`: the wait tokens of call `op` go.
    `close-losers`: all rows of branches of `op` go but those whose operation begins with `key`. `close-all`:
    all rows of the run go. A text that isn't there is empty.
    """

    what: What
    run_id: UUID
    key: str = ""
    op: str = ""
    kind: str = ""
    opened: int = 0
    since: int | None = None
    due: int | None = None
    node: str = ""
    tool: str = ""
    tool_version: str = ""
    name: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsFilter:
    """Which waits to list. All that is given must hold."""

    workspace: str = "default"
    project: str | None = None
    kind: str | None = None
    name: str | None = None
    tool: str | None = None
    run_id: UUID | None = None


class WaitsList:
    """See the module."""

    name = "waits"

    def __init__(self, store: ReadModelStore, codec: EventCodec) -> None:
        self._store = store
        self._codec = codec

    async def apply(self, place: Place, position: int, batch: Sequence[SealedEvent]) -> bool:
        """See `ReadModel.apply`."""
        changes = waits_changes((sealed.event for sealed in batch), self._codec)
        return await self._store.apply_waits(place, position, changes)

    async def find(self, wanted: WaitsFilter, *, limit: int, cursor: str | None = None) -> Page[WaitView]:
        """A page of waits, oldest first. Raises `InvalidCursorError`."""
        after = None if cursor is None else parse_cursor(cursor)
        text, values = query_of(wanted, after, limit + 1)
        rows = await self._store.select(text, values)
        page = [_view(row) for row in rows[:limit]]
        more = format_cursor(rows[limit - 1]) if len(rows) > limit else None
        return Page(data=tuple(page), next_cursor=more)


def waits_changes(events: Iterable[EventRow], codec: EventCodec) -> list[WaitChange]:
    """What events, in sealed order, do to the list, to be applied in this order."""
    changes: list[WaitChange] = []
    for row in events:
        if row.topic not in _TOPICS:  # it isn't even opened
            continue
        try:
            changes += changes_of(codec.open(row))
        except HistoryDamagedError as error:
            _log.error("the list of waits passes over a damaged event: %s", error)
    return changes


def changes_of(recorded: Recorded) -> Iterable[WaitChange]:
    """What one event does."""
    make = _MAKERS.get(type(recorded.event))
    return () if make is None else make(recorded, recorded.event)


_NOW = -1


def _opened(
    recorded: Recorded, key: str, op: str, *, since: int | None = _NOW, due: int | None = None
) -> WaitChange:
    described = describe(recorded.event, None)
    return WaitChange(
        "open",
        recorded.stream,
        key,
        op,
        kind_of(key),
        recorded.version,
        to_micros(recorded.at) if since == _NOW else since,
        due,
        described.node or "",
        described.tool_id or "",
        described.tool_version or "",
        "",
        described.line or "",
    )


def _call_started(recorded: Recorded, event: e.CallStarted) -> Iterable[WaitChange]:
    yield WaitChange("close", recorded.stream, f"retry {event.op}")
    if event.wait is not None:
        yield _opened(recorded, event.wait, event.op, since=None)


def _paused(recorded: Recorded, event: e.CallPaused) -> Iterable[WaitChange]:
    yield WaitChange(
        "reach",
        recorded.stream,
        event.wait,
        since=to_micros(recorded.at),
        due=to_micros(event.times_out_at),
        name=event.name or "",
        line=event.line,
    )


def _extended(recorded: Recorded, event: e.WaitTokenExtended) -> Iterable[WaitChange]:
    yield WaitChange("move", recorded.stream, event.wait, due=to_micros(event.times_out_at))


def _token_closed(
    recorded: Recorded, event: e.WaitTokenCompleted | e.WaitTokenDiscarded | e.WaitTokenTimedOut
) -> Iterable[WaitChange]:
    yield WaitChange("close", recorded.stream, event.wait)


def _call_ended(recorded: Recorded, event: e.CallCompleted | e.CallFailed) -> Iterable[WaitChange]:
    yield WaitChange("close-call", recorded.stream, op=event.op)


def _timer_set(recorded: Recorded, event: e.TimerSet) -> Iterable[WaitChange]:
    yield _opened(recorded, f"timer {event.op}", event.op, due=to_micros(event.due_at))


def _retry(recorded: Recorded, event: e.RetryScheduled) -> Iterable[WaitChange]:
    yield _opened(recorded, f"retry {event.op}", event.op, due=to_micros(event.due_at))


def _timer_fired(recorded: Recorded, event: e.TimerFired) -> Iterable[WaitChange]:
    yield WaitChange("close", recorded.stream, f"timer {event.op}")


def _mismatch(recorded: Recorded, event: e.CodeMismatch) -> Iterable[WaitChange]:
    yield _opened(recorded, "code-mismatch", event.op)


def _matched(recorded: Recorded, event: e.CodeMatched) -> Iterable[WaitChange]:
    yield WaitChange("close", recorded.stream, "code-mismatch")


def _crash_loop(recorded: Recorded, event: e.CrashLoop) -> Iterable[WaitChange]:
    yield _opened(recorded, "crash-loop", "-")


def _crash_retried(recorded: Recorded, event: e.CrashLoopRetried) -> Iterable[WaitChange]:
    yield WaitChange("close", recorded.stream, "crash-loop")


def _race_decided(recorded: Recorded, event: e.RaceDecided) -> Iterable[WaitChange]:
    yield WaitChange("close-losers", recorded.stream, f"{event.op}.b{event.winner}.", event.op)


def _ended(recorded: Recorded, event: e.Event) -> Iterable[WaitChange]:
    yield WaitChange("close-all", recorded.stream)


_MAKERS: Mapping[type[e.Event], Callable[[Recorded, Any], Iterable[WaitChange]]] = {
    e.CallStarted: _call_started,
    e.CallPaused: _paused,
    e.WaitTokenExtended: _extended,
    e.WaitTokenCompleted: _token_closed,
    e.WaitTokenDiscarded: _token_closed,
    e.WaitTokenTimedOut: _token_closed,
    e.CallCompleted: _call_ended,
    e.CallFailed: _call_ended,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.RetryScheduled: _retry,
    e.CodeMismatch: _mismatch,
    e.CodeMatched: _matched,
    e.CrashLoop: _crash_loop,
    e.CrashLoopRetried: _crash_retried,
    e.RaceDecided: _race_decided,
    e.Completed: _ended,
    e.Failed: _ended,
    e.Cancelled: _ended,
}
_TOPICS = frozenset(kind.topic for kind in _MAKERS)


def query_of(wanted: WaitsFilter, after: tuple[int, UUID, int] | None, limit: int) -> tuple[str, list[Any]]:
    """The statement that finds the oldest waits that fit, after a place in the list, and its values."""
    values: list[Any] = []

    def bound(value: object) -> str:
        values.append(value)
        return f"${len(values)}"

    # A run has few waits: they are found by its id, and no index of workspaces is to be preferred.
    workspace = "workspace" if wanted.run_id is None else "workspace || ''"
    text = f"{_FROM} AND {workspace} = {bound(wanted.workspace)}"
    for column, given in (
        ("project", wanted.project),
        ("run_id", wanted.run_id),
        ("name", wanted.name),
        ("tool", wanted.tool),
        ("kind", wanted.kind),
    ):
        if given is not None:
            text += f" AND {column} = {bound(given)}{_INDEXED.get(column, '')}"
    if wanted.kind is not None and wanted.kind != "token":
        text += " AND kind <> 'token'"
    if after is not None:
        text += f" AND (since, run_id, opened) > ({', '.join(map(bound, after))})"
    return f"{text} ORDER BY since, run_id, opened LIMIT {bound(limit)}", values


def _view(row: Sequence[Any]) -> WaitView:
    run_id, _, key, workspace, project, since, due, node, tool, tool_version, name, line = row
    return WaitView(
        id=id_of(key),
        run_id=to_uuid(run_id),
        kind=kind_of(key),
        state="waiting",
        created_at=from_micros(since),
        due_at=None if due is None else from_micros(due),
        name=name or None,
        tool_id=tool or None,
        tool_version=tool_version or None,
        node=node or None,
        line=line or None,
        workspace=workspace,
        project=project,
    )


def format_cursor(row: Sequence[Any]) -> str:
    """The cursor of the page that begins after this row."""
    text = json.dumps([row[5], to_uuid(row[0]).hex, row[1]], separators=(",", ":"))
    return base64.urlsafe_b64encode(b"w" + text.encode()).decode().rstrip("=")


def parse_cursor(cursor: str) -> tuple[int, UUID, int]:
    """The place that `format_cursor` wrote. Raises `InvalidCursorError` for any other text."""
    wrong = InvalidCursorError("the cursor wasn't made by this list")
    try:
        stored = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        since, run_id, opened = json.loads(stored[1:])
        place = (since, UUID(run_id), opened)
    except (binascii.Error, ValueError, TypeError, AttributeError, RecursionError):
        raise wrong from None
    if not stored.startswith(b"w") or not _is_count(since) or not _is_count(opened):
        raise wrong
    return place


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
