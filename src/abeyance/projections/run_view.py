"""The run as readers see it, from its inline read models or from a run that is held in memory.

Both ways lead through one function, so a run that is answered from memory looks exactly as it does from the
store. What a run waits for comes from the rows of its open waits and the events that they name;
it is there only while the run is suspended.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from abeyance.crypto.sealing import RunKey
from abeyance.errors import ContentErasedError, HistoryDamagedError
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.run import ENDED, RunState
from abeyance.journal.store import Control, OpenWait, RunRecord, WaitRow
from abeyance.journal.vault import Vault
from abeyance.projections.views import FailureView, OtherView, RunView, TokenView, WaitingFor
from abeyance.world import from_micros, to_micros


class Waited(NamedTuple):
    """An open wait: its row, the event that opened it, the one that paused the run on it."""

    row: WaitRow
    opening: Recorded
    pausing: Recorded | None


def run_view(
    record: RunRecord, *, codec: EventCodec, vault: Vault, key: RunKey | None, now: datetime
) -> RunView:
    """The stored run at `now`. Without a key (it was erased) there is no output and no failure message.

    Raises `HistoryDamagedError` if an event that the view is made from doesn't hold together, and
    `VerificationError` if its content was changed.
    """
    control = record.control
    newest = codec.open(record.newest)

    def content(version: int) -> bytes:
        ref = e.content_ref(newest.event)
        if record.content is None or key is None or ref is None:
            raise ContentErasedError(version)
        run_id = control.run_id
        return vault.open(record.content, ref, key, run_id=run_id, version=version).canonical

    return _view(
        first=codec.open(record.first),
        status=_shown_status(control, to_micros(now)),
        updated_at=newest.at,
        ending=newest if control.status in ENDED else None,
        waits=[_stored_wait(wait, codec) for wait in record.waits] if control.status == "suspended" else (),
        content=content,
    )


def run_view_of(
    state: RunState,
    opened: Mapping[str, Sequence[Recorded]],
    ending: Recorded | None,
    content: Callable[[int], bytes],
) -> RunView:
    """A run held in memory. `opened` has, by the wait's key, the events that opened each open wait and paused
    the run on it; `content` gives the content of the event at a version, or raises `ContentErasedError`.
    """
    first = Recorded(state.run_id, 1, state.created_at, state.started, b"", None, b"")
    waits = (_held_wait(wait.row, opened[key]) for key, wait in state.waits.items())
    return _view(
        first=first,
        status=state.status,
        updated_at=state.at,
        ending=ending,
        waits=waits if state.status == "suspended" else (),
        content=content,
    )


def _shown_status(control: Control, now: int) -> str:
    """A run that somebody has taken up is running, whether or not it has an event that says so."""
    taken = control.lease_until is not None and control.lease_until > now
    return "running" if control.status == "pending" and taken else control.status


def _stored_wait(wait: OpenWait, codec: EventCodec) -> Waited:
    pausing = None if wait.pausing is None else codec.open(wait.pausing)
    return Waited(wait.wait, codec.open(wait.opening), pausing)


def _held_wait(row: WaitRow, events: Sequence[Recorded]) -> Waited:
    by_version = {event.version: event for event in events}
    return Waited(row, by_version[row.opened], None if row.paused is None else by_version[row.paused])


def _view(
    *,
    first: Recorded,
    status: str,
    updated_at: datetime,
    ending: Recorded | None,
    waits: Iterable[Waited],
    content: Callable[[int], bytes],
) -> RunView:
    started = first.event
    if not isinstance(started, e.Started):
        raise HistoryDamagedError("a run's stream begins with another event", where=str(first.stream))
    definition = started.definition
    return RunView(
        id=first.stream,
        status=status,
        kind=definition.kind,
        definition_id=definition.id,
        version=definition.version,
        workspace=started.workspace,
        project=started.project,
        labels=started.labels or {},
        created_at=first.at,
        updated_at=updated_at,
        expires_at=started.expires_at,
        completed_at=None if ending is None else ending.at,
        output=_output(ending, content),
        failure=_failure(ending, content),
        parent=started.parent,
        waiting_for=_waiting_for(waits) if status == "suspended" else None,
    )


def _output(ending: Recorded | None, content: Callable[[int], bytes]) -> bytes | None:
    if ending is None or not isinstance(ending.event, e.Completed):
        return None
    return _content(ending, content)


def _failure(ending: Recorded | None, content: Callable[[int], bytes]) -> FailureView | None:
    if ending is None or not isinstance(ending.event, e.Failed):
        return None
    failed = ending.event
    stored = None if failed.detail is None else _content(ending, content)
    message = None if stored is None else json.loads(stored)
    shown = message if message is None or isinstance(message, str) else json.dumps(message)
    return FailureView(code=failed.code, message=shown, node=failed.node)


def _content(event: Recorded, content: Callable[[int], bytes]) -> bytes | None:
    try:
        return content(event.version)
    except ContentErasedError:
        return None


def _waiting_for(waits: Iterable[Waited]) -> WaitingFor:
    """Oldest first. Tokens only once the run has reached them: before that it waits for no answer."""
    tokens: list[TokenView] = []
    other: list[OtherView] = []
    for wait in sorted(waits, key=lambda wait: wait.row.opened):
        match wait.opening.event, wait.pausing:
            case e.CallStarted() as call, Recorded(event=e.CallPaused() as pause) as pausing:
                if wait.row.state == "waiting":
                    tokens.append(_token(call, pause, pausing.at, wait.row))
            case e.CallStarted(), None:
                pass
            case opening, _:
                other.append(_other(opening))
    return WaitingFor(tokens=tuple(tokens), other=tuple(other))


def _token(call: e.CallStarted, pause: e.CallPaused, created_at: datetime, row: WaitRow) -> TokenView:
    """The deadline is the row's: it may have been moved since the pause."""
    return TokenView(
        token_id=pause.wait,
        name=pause.name,
        tool_id=call.tool.id,
        tool_version=call.tool.version,
        node=call.node,
        line=pause.line,
        created_at=created_at,
        times_out_at=pause.times_out_at if row.due is None else from_micros(row.due),
    )


def _other(opening: e.Event) -> OtherView:
    match opening:
        case e.TimerSet():
            return OtherView(what="timer", node=opening.op, due_at=opening.due_at)
        case e.RetryScheduled():
            details = {"attempt": str(opening.attempt)}
            return OtherView(what="retry", node=opening.op, due_at=opening.due_at, details=details)
        case e.CrashLoop():
            return OtherView(what="crash-loop", details={"lost": str(opening.lost)})
        case e.CodeMismatch():
            sides = {"recorded": opening.recorded, "requested": opening.requested}
            line = {} if opening.line is None else {"line": opening.line}
            return OtherView(what="code-mismatch", node=opening.op, details=sides | line)
        case _:
            raise HistoryDamagedError(f"{opening.topic} opens no wait")
