"""One wait as readers see it, open or closed, found in its run's history.

A wait's id is its token's, `pause:<key>:<n>`; of other kinds `timer:<operation>`, `retry:<operation>`,
`code-mismatch` or `crash-loop`. No view holds a link or a digest of one, only how many links work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from abeyance.errors import HistoryDamagedError
from abeyance.journal import events as e
from abeyance.journal.envelope import Recorded
from abeyance.journal.run import RunState, begin, evolve
from abeyance.journal.store import WaitRow
from abeyance.world import from_micros

KINDS = ("token", "timer", "retry", "code-mismatch", "crash-loop")
_WITH_OPERATION = ("timer", "retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    """A wait. `state` is `open` (the run hasn't reached it), `waiting`, `answered`, `completed`, `timed-out`,
    `cancelled` or `unused`. `created_at` is when the run came to wait; of a wait that it hasn't reached, when
    it was opened. `links` is how many links work, `None` where that isn't known or there are none by kind.
    """

    id: str
    run_id: UUID
    kind: str
    state: str
    created_at: datetime
    name: str | None = None
    tool_id: str | None = None
    tool_version: str | None = None
    node: str | None = None
    line: str | None = None
    due_at: datetime | None = None
    closed_at: datetime | None = None
    links: int | None = None
    workspace: str
    project: str


@dataclass(slots=True)
class _Seen:
    row: WaitRow | None = None
    opening: Recorded | None = None
    pausing: Recorded | None = None
    closing: Recorded | None = None
    links: int = 0


def key_of(wait_id: str) -> str:
    """The key that a run's state has the wait under."""
    kind, colon, op = wait_id.partition(":")
    return f"{kind} {op}" if colon and kind in _WITH_OPERATION else wait_id


def id_of(key: str) -> str:
    """The id of the wait that a run's state has under this key."""
    kind, space, op = key.partition(" ")
    return f"{kind}:{op}" if space else key


def kind_of(key: str) -> str:
    """What kind of wait a run's state has under this key."""
    kind = key.partition(" ")[0]
    return kind if kind in KINDS else "token"


def is_other_kind(wait_id: str) -> bool:
    """Whether this is the id of a wait that is no wait token."""
    return wait_id.partition(":")[0] in (*KINDS[1:], "approval", "signal")


def wait_view(history: Iterable[Recorded], wait_id: str) -> WaitView | None:
    """The wait with this id; of several the newest. `None` if the run has none."""
    key, seen, state = key_of(wait_id), _Seen(), None
    for recorded in history:
        if state is None:
            state = begin(recorded)
            continue
        state, changes = evolve(state, recorded)
        _note(seen, key, state, recorded, changes.waits)
    if state is None or seen.row is None or seen.opening is None:
        return None
    return _view(state, key, seen, seen.row, seen.opening)


def _note(seen: _Seen, key: str, state: RunState, recorded: Recorded, changed: Iterable[WaitRow]) -> None:
    wait = state.waits.get(key)
    if wait is None:
        for row in changed:
            if seen.row is not None and row.opened == seen.row.opened:
                seen.row, seen.closing = row, recorded
        return
    if wait.row.opened == recorded.version:
        seen.opening, seen.pausing, seen.closing = recorded, None, None
    if wait.row.paused == recorded.version:
        seen.pausing = recorded
    seen.row, seen.links = wait.row, len(wait.links)


def _view(state: RunState, key: str, seen: _Seen, row: WaitRow, opening: Recorded) -> WaitView:
    kind, call = kind_of(key), opening.event
    pause = None if seen.pausing is None else seen.pausing.event
    described = describe(call, pause)
    return WaitView(
        id=id_of(key),
        run_id=state.run_id,
        kind=kind,
        state=row.state,
        created_at=(seen.pausing or opening).at,
        due_at=None if row.due is None else from_micros(row.due),
        closed_at=None if seen.closing is None else seen.closing.at,
        links=seen.links if kind == "token" else None,
        workspace=state.started.workspace,
        project=state.started.project,
        name=described.name,
        tool_id=described.tool_id,
        tool_version=described.tool_version,
        node=described.node,
        line=described.line,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What the events of a wait say of it, for people."""

    node: str | None
    name: str | None = None
    tool_id: str | None = None
    tool_version: str | None = None
    line: str | None = None


def describe(opening: e.Event, pause: e.Event | None) -> Described:
    """What the event that opened a wait says, and the one that paused the run on it. Raises
    `HistoryDamagedError` for an event that opens none.
    """
    match opening:
        case e.CallStarted():
            paused = pause if isinstance(pause, e.CallPaused) else None
            return Described(
                node=opening.node,
                name=None if paused is None else paused.name,
                tool_id=opening.tool.id,
                tool_version=opening.tool.version,
                line=None if paused is None else paused.line,
            )
        case e.TimerSet() | e.RetryScheduled():
            return Described(node=opening.op)
        case e.CodeMismatch():
            return Described(node=opening.op, line=opening.line)
        case e.CrashLoop():
            return Described(node=None)
        case _:
            raise HistoryDamagedError(f"{opening.topic} opens no wait")
