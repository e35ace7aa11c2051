"""The state of a run, made from its events by `evolve`: pure and total.

`RunState` holds only what is open now (calls, waits, timers), so that its size doesn't grow with the
history and a step of `evolve` copies little. What a wait's row says after each event is decided here too,
so that the inline read models are a function of the events and `projections check` can compare.

A wait token's states: `open` (issued) → `waiting` (the run reached it) → `completed` | `timed-out` |
`cancelled` | `unused`; `answered` = an answer is held before the run reached it.
docs/explanation/life-of-an-answer.md tells what leads to each.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from abeyance.errors import HistoryDamagedError
from abeyance.journal import events as e
from abeyance.journal.envelope import Recorded
from abeyance.journal.store import LinkRow, WaitRow
from abeyance.world import to_micros

ENDED = frozenset(("completed", "failed", "cancelled"))
CLOSED_WAIT = frozenset(("completed", "timed-out", "cancelled", "unused"))


class OpenCall(NamedTuple):
    """A call without a final result. `phase` is `running`, `drained`, `paused` or `retrying`."""

    op: str
    node: str
    tool: e.ToolRef
    key: UUID
    attempt: int
    ordinal: int
    phase: str
    wait: str | None = None


class PendingWait(NamedTuple):
    """Something that the run waits for or may come to wait for: its operation, its row as it stands, the
    commitment of the answer that a token holds, the digests of its links that work, and when the run reached
    it.
    """

    op: str
    row: WaitRow
    held: e.ContentRef | None = None
    links: tuple[bytes, ...] = ()
    paused_at: datetime | None = None


class RunState(NamedTuple):
    """A run at one version. `waits` are by token id, or for other kinds by `timer <op>`, `retry <op>`,
    `code-mismatch` and `crash-loop`. `abandoned` are operations in flight whose branch lost a race.
    """

    run_id: UUID
    version: int
    head: bytes
    at: datetime
    status: str
    started: e.Started
    created_at: datetime
    calls: Mapping[str, OpenCall] = {}
    waits: Mapping[str, PendingWait] = {}
    abandoned: frozenset[str] = frozenset()
    mismatch: e.CodeMismatch | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing can be appended any more."""
        return self.status in ENDED

    @property
    def crash_looping(self) -> bool:
        """Whether the run is parked because its workers died: no code of it may run."""
        return "crash-loop" in self.waits

    def next_deadline(self) -> int:
        """The nearest moment (microseconds) at which the run must be looked at while it waits: never after
        its end."""
        if self.crash_looping:  # what its waits come to is the business of its code
            return to_micros(self.started.expires_at)
        dues = [wait.row.due for wait in self.waits.values() if wait.row.due is not None]
        return min((*dues, to_micros(self.started.expires_at)))


def token_id(call_key: UUID, ordinal: int) -> str:
    """The id of a wait token: `pause:<idempotency key of the call>:<n>`."""
    return f"pause:{call_key}:{ordinal}"


def parse_token_id(text: str) -> tuple[UUID, int] | None:
    """The call's key and the ordinal that a token id names; `None` if it isn't one."""
    prefix, _, rest = text.partition(":")
    key, _, ordinal = rest.partition(":")
    if prefix != "pause" or not ordinal.isascii() or not ordinal.isdigit() or len(ordinal) > 9:
        return None
    try:
        parsed = UUID(key)
    except ValueError:
        return None
    return (parsed, int(ordinal)) if token_id(parsed, int(ordinal)) == text else None


class RowChanges(NamedTuple):
    """What an event changes in the inline read models beside the control row. `dead_links` are digests of
    links whose rows go, before those of `links` come.
    """

    waits: tuple[WaitRow, ...] = ()
    links: tuple[LinkRow, ...] = ()
    dead_links: tuple[bytes, ...] = ()


NOTHING = RowChanges()


def begin(recorded: Recorded) -> RunState:
    """The state after a run's first event."""
    started = recorded.event
    if not isinstance(started, e.Started) or recorded.version != 1 or recorded.prev is not None:
        raise HistoryDamagedError("a run's stream begins with another event", where=str(recorded.stream))
    return RunState(
        recorded.stream, 1, recorded.digest, recorded.at, "pending", started, created_at=recorded.at
    )


def evolve(state: RunState, recorded: Recorded) -> tuple[RunState, RowChanges]:
    """The state after the next event, and what it changes in the rows of waits and links.

    Holds the chain: version, `prev` and time must follow. Raises `HistoryDamagedError` otherwise.
    """
    if recorded.version != state.version + 1 or recorded.prev != state.head:
        raise HistoryDamagedError("the chain is broken", where=f"event {recorded.version} of {state.run_id}")
    if state.ended:
        raise HistoryDamagedError(
            "an event follows the end", where=f"event {recorded.version} of {state.run_id}"
        )
    status = status_after(state.status, type(recorded.event))
    state = state._replace(version=recorded.version, head=recorded.digest, at=recorded.at, status=status)
    step = _STEPS.get(type(recorded.event))
    return step(state, recorded, recorded.event) if step is not None else (state, NOTHING)


def status_after(status: str, kind: type[e.Event]) -> str:
    """The status of a run with `status` after an event of this type."""
    return status if kind in KEEPS_STATUS else _STATUS.get(kind, "running")


def replay(history: Iterable[Recorded]) -> RunState:
    """The state after a whole history."""
    events = iter(history)
    first = next(events, None)
    if first is None:
        raise HistoryDamagedError("a run has no events")
    state = begin(first)
    for recorded in events:
        state, _ = evolve(state, recorded)
    return state


_Value = TypeVar("_Value")
_Step = Callable[[RunState, Recorded, Any], tuple[RunState, RowChanges]]


def _without(mapping: Mapping[str, _Value], *keys: str) -> dict[str, _Value]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _call(state: RunState, op: str) -> OpenCall:
    call = state.calls.get(op)
    if call is None:
        raise HistoryDamagedError(f"no call is open at operation {op}", where=f"event {state.version}")
    return call


def _wait(state: RunState, wait_id: str) -> PendingWait:
    wait = state.waits.get(wait_id)
    if wait is None:
        raise HistoryDamagedError(f"no wait {wait_id} is open", where=f"event {state.version}")
    return wait


def _with_call(state: RunState, call: OpenCall) -> RunState:
    return state._replace(calls={**state.calls, call.op: call})


def _put_wait(state: RunState, wait_id: str, wait: PendingWait) -> tuple[RunState, RowChanges]:
    return state._replace(waits={**state.waits, wait_id: wait}), RowChanges((wait.row,))


def _close_waits(state: RunState, outcomes: Mapping[str, str]) -> tuple[RunState, RowChanges]:
    """Close those of the named waits that are open."""
    rows = tuple(
        state.waits[key].row._replace(state=outcome, closed=state.version)
        for key, outcome in outcomes.items()
        if key in state.waits
    )
    if not rows:
        return state, NOTHING
    return state._replace(waits=_without(state.waits, *outcomes)), RowChanges(rows)


def _plain_wait(state: RunState, op: str, due: datetime | None) -> PendingWait:
    row = WaitRow(
        state.run_id, state.version, None, None, "waiting", due=None if due is None else to_micros(due)
    )
    return PendingWait(op, row)


def _call_started(state: RunState, recorded: Recorded, event: e.CallStarted) -> tuple[RunState, RowChanges]:
    call = OpenCall(event.op, event.node, event.tool, event.key, event.attempt, 1, "running", event.wait)
    state, changes = _close_waits(_with_call(state, call), {f"retry {event.op}": "completed"})
    if event.wait is None or event.link is None:
        return state, changes
    named = parse_token_id(event.wait)
    if named is None:
        raise HistoryDamagedError("a wait's id isn't one", where=f"event {recorded.version}")
    row = WaitRow(state.run_id, recorded.version, named[0], named[1], "open")
    link = LinkRow(bytes.fromhex(event.link), state.run_id, recorded.version)
    state, opened = _put_wait(state, event.wait, PendingWait(event.op, row, links=(link.digest,)))
    return state, RowChanges(changes.waits + opened.waits, (link,))


def _rerun(state: RunState, recorded: Recorded, event: e.Rerun) -> tuple[RunState, RowChanges]:
    call = _call(state, event.op)
    given_back = event.cause == "drained" and call.phase == "running"
    state = _with_call(
        state, call._replace(ordinal=event.ordinal, phase="drained" if given_back else "running")
    )
    if event.link is None or call.wait is None:
        return state, NOTHING
    wait = _wait(state, call.wait)
    link = LinkRow(bytes.fromhex(event.link), state.run_id, wait.row.opened)
    return _with_links(state, call.wait, (*wait.links, link.digest)), RowChanges((), (link,))


def _call_paused(state: RunState, recorded: Recorded, event: e.CallPaused) -> tuple[RunState, RowChanges]:
    state = _with_call(state, _call(state, event.op)._replace(phase="paused"))
    wait = _wait(state, event.wait)
    row = wait.row._replace(
        state="waiting" if wait.held is None else "answered",
        paused=recorded.version,
        due=to_micros(event.times_out_at),
    )
    return _put_wait(state, event.wait, wait._replace(row=row, paused_at=recorded.at))


def _with_links(state: RunState, wait_id: str, links: tuple[bytes, ...]) -> RunState:
    return state._replace(waits={**state.waits, wait_id: _wait(state, wait_id)._replace(links=links)})


def _extended(state: RunState, recorded: Recorded, event: e.WaitTokenExtended) -> tuple[RunState, RowChanges]:
    wait = _wait(state, event.wait)
    row = wait.row._replace(due=to_micros(event.times_out_at))
    return _put_wait(state, event.wait, wait._replace(row=row))


def _rotated(state: RunState, recorded: Recorded, event: e.LinkRotated) -> tuple[RunState, RowChanges]:
    wait = _wait(state, event.wait)
    link = LinkRow(bytes.fromhex(event.link), state.run_id, wait.row.opened)
    state = _with_links(state, event.wait, (link.digest,))
    return state, RowChanges((), (link,), dead_links=wait.links)


def _revoked(state: RunState, recorded: Recorded, event: e.LinkRevoked) -> tuple[RunState, RowChanges]:
    dead = _wait(state, event.wait).links
    return _with_links(state, event.wait, ()), RowChanges(dead_links=dead)


def _result(state: RunState, op: str, *, final: bool) -> tuple[RunState, RowChanges]:
    call = _call(state, op)
    kept = {**state.calls, op: call._replace(phase="retrying")}
    calls = _without(state.calls, op) if final else kept
    state = state._replace(calls=calls, abandoned=state.abandoned - {op})
    return _close_waits(state, {call.wait: "unused"} if call.wait is not None else {})


def _call_completed(
    state: RunState, recorded: Recorded, event: e.CallCompleted
) -> tuple[RunState, RowChanges]:
    return _result(state, event.op, final=True)


def _call_failed(state: RunState, recorded: Recorded, event: e.CallFailed) -> tuple[RunState, RowChanges]:
    return _result(state, event.op, final=event.final)


def _retry(state: RunState, recorded: Recorded, event: e.RetryScheduled) -> tuple[RunState, RowChanges]:
    state = _with_call(state, _call(state, event.op)._replace(phase="retrying"))
    return _put_wait(state, f"retry {event.op}", _plain_wait(state, event.op, event.due_at))


def _answered(state: RunState, recorded: Recorded, event: e.WaitTokenAnswered) -> tuple[RunState, RowChanges]:
    wait = _wait(state, event.wait)
    row = wait.row._replace(state="answered", answer=recorded.version)
    return _put_wait(state, event.wait, wait._replace(row=row, held=event.answer))


def _taken(state: RunState, recorded: Recorded, event: e.WaitTokenCompleted) -> tuple[RunState, RowChanges]:
    wait = _wait(state, event.wait)
    row = wait.row._replace(answer=wait.row.answer if event.held else recorded.version)
    state = state._replace(
        waits={**state.waits, event.wait: wait._replace(row=row)}, calls=_without(state.calls, wait.op)
    )
    return _close_waits(state, {event.wait: "completed"})


def _discarded(
    state: RunState, recorded: Recorded, event: e.WaitTokenDiscarded
) -> tuple[RunState, RowChanges]:
    cancelled = event.reason in ("run-cancelled", "branch-cancelled")
    return _close_waits(state, {event.wait: "cancelled" if cancelled else "unused"})


def _timed_out(
    state: RunState, recorded: Recorded, event: e.WaitTokenTimedOut
) -> tuple[RunState, RowChanges]:
    return _close_waits(state, {event.wait: "timed-out"})


def losing_branches(op: str, winner: int, ops: Iterable[str]) -> set[str]:
    """Those of `ops` that lie in a branch of race or gather `op` other than `winner`."""
    prefix, mine = f"{op}.b", f"{op}.b{winner}."
    return {each for each in ops if each.startswith(prefix) and not each.startswith(mine)}


def _race_decided(state: RunState, recorded: Recorded, event: e.RaceDecided) -> tuple[RunState, RowChanges]:
    running = {op for op, call in state.calls.items() if call.phase == "running"}
    lost = losing_branches(
        event.op, event.winner, (*state.calls, *(wait.op for wait in state.waits.values()))
    )
    state = state._replace(
        calls={op: call for op, call in state.calls.items() if op not in lost or op in running},
        abandoned=state.abandoned | (lost & running),
    )
    return _close_waits(state, {key: "cancelled" for key, wait in state.waits.items() if wait.op in lost})


def _timer_set(state: RunState, recorded: Recorded, event: e.TimerSet) -> tuple[RunState, RowChanges]:
    return _put_wait(state, f"timer {event.op}", _plain_wait(state, event.op, event.due_at))


def _timer_fired(state: RunState, recorded: Recorded, event: e.TimerFired) -> tuple[RunState, RowChanges]:
    return _close_waits(state, {f"timer {event.op}": "completed"})


def _mismatch(state: RunState, recorded: Recorded, event: e.CodeMismatch) -> tuple[RunState, RowChanges]:
    state, closed = _close_waits(state, {"code-mismatch": "unused"})
    state, opened = _put_wait(
        state._replace(mismatch=event), "code-mismatch", _plain_wait(state, event.op, None)
    )
    return state, RowChanges(closed.waits + opened.waits)


def _matched(state: RunState, recorded: Recorded, event: e.CodeMatched) -> tuple[RunState, RowChanges]:
    return _close_waits(state._replace(mismatch=None), {"code-mismatch": "completed"})


def _crash_loop(state: RunState, recorded: Recorded, event: e.CrashLoop) -> tuple[RunState, RowChanges]:
    return _put_wait(state, "crash-loop", _plain_wait(state, "-", None))


def _crash_retried(
    state: RunState, recorded: Recorded, event: e.CrashLoopRetried
) -> tuple[RunState, RowChanges]:
    return _close_waits(state, {"crash-loop": "completed"})


def _ended(state: RunState, recorded: Recorded, event: e.Event) -> tuple[RunState, RowChanges]:
    cancelled = isinstance(event, e.Cancelled)
    closing = {
        key: "unused" if wait.row.state == "open" and not cancelled else "cancelled"
        for key, wait in state.waits.items()
    }
    state, rows = _close_waits(state, closing)
    return state._replace(calls={}, abandoned=frozenset(), mismatch=None), rows


KEEPS_STATUS: frozenset[type[e.Event]] = frozenset((e.WaitTokenExtended, e.LinkRotated, e.LinkRevoked))
"""Events after which a run goes on, or waits, as before."""
_STATUS: Mapping[type[e.Event], str] = {
    e.Suspended: "suspended",
    e.CodeMismatch: "suspended",
    e.CrashLoop: "suspended",
    e.Completed: "completed",
    e.Failed: "failed",
    e.Cancelled: "cancelled",
}
_STEPS: Mapping[type[e.Event], _Step] = {
    e.CallStarted: _call_started,
    e.Rerun: _rerun,
    e.CallPaused: _call_paused,
    e.CallCompleted: _call_completed,
    e.CallFailed: _call_failed,
    e.RetryScheduled: _retry,
    e.WaitTokenAnswered: _answered,
    e.WaitTokenCompleted: _taken,
    e.WaitTokenDiscarded: _discarded,
    e.WaitTokenTimedOut: _timed_out,
    e.WaitTokenExtended: _extended,
    e.LinkRotated: _rotated,
    e.LinkRevoked: _revoked,
    e.RaceDecided: _race_decided,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.CodeMismatch: _mismatch,
    e.CodeMatched: _matched,
    e.CrashLoop: _crash_loop,
    e.CrashLoopRetried: _crash_retried,
    e.Completed: _ended,
    e.Failed: _ended,
    e.Cancelled: _ended,
}
