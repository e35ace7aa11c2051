"""What follows from what happened: events of a run, decided on its state, its program and the turn's time.

Every function adds events to a `Turn` and nothing else; refusals are raised before the first event is
added, so a refused command leaves the turn as it was. `settle` goes on until the program wants nothing more
for now.
"""

from datetime import timedelta
from hashlib import sha256

from abeyance.engine.calls import CallFailure, CallOutput, CallPause, CallResult
from abeyance.engine.endings import EXPIRED, EXPIRED_TEXT, cancel_run, discard_held, fail_run
from abeyance.engine.links import new_link
from abeyance.engine.operations import (
    CallRequest,
    DecideRequest,
    Request,
    Returned,
    SleepRequest,
    StepRequest,
    ValueRequest,
)
from abeyance.engine.turn import Effect, Turn, call_key
from abeyance.errors import HistoryDamagedError, RunAlreadyTerminalError
from abeyance.journal import canonical
from abeyance.journal import events as e
from abeyance.journal.run import OpenCall, RunState, losing_branches, token_id
from abeyance.journal.vault import Content
from abeyance.world import to_micros, uuid7

_NEVER_RETRIED = frozenset(
    ("pause-not-available", "invalid-pause", "input-validation-failed", "branch-cancelled",
     "wait-token-reruns-exhausted", "call-reruns-exhausted")
)  # fmt: skip


def settle(turn: Turn) -> None:
    """Answer what the program wants until it wants nothing more, then end or suspend the run."""
    if turn.state.ended:
        return
    while _open_wanted(turn):
        pass
    outcome = turn.session.driver.outcome
    if outcome is not None:
        _end(turn, outcome)
    elif not turn.effects and not turn.session.running and turn.state.status != "suspended":
        turn.add(suspended(turn.state))


def _open_wanted(turn: Turn) -> bool:
    """Open each operation that is wanted and not under way; whether the program may have moved on."""
    session, moved = turn.session, False
    under_way = {*session.running, *(effect.op for effect in turn.effects)}
    for request in session.driver.wanted():
        if request.op in under_way or session.driver.request(request.op) is not request:
            continue
        moved = _open(turn, request) or moved
    return moved


def _open(turn: Turn, request: Request) -> bool:
    """Record that an operation begins, or begin it unrecorded; whether an event was added."""
    match request:
        case ValueRequest():
            turn.add(e.ValueRecorded(kind=request.kind, op=request.op, value=_value(turn, request.kind)))
        case SleepRequest():
            due_at = turn.batch.now + request.duration
            turn.add(e.TimerSet(args=request.args, due_at=due_at, op=request.op))
        case DecideRequest():
            _decide_race(turn, request)
        case CallRequest() if request.tool.mutating or request.tool.pauses:
            _start_call(turn, request, attempt=1)
        case CallRequest() | StepRequest():
            turn.effects.append(Effect(op=request.op, request=request, recorded=False))
            return False
    return True


def _value(turn: Turn, kind: str) -> str:
    if kind == "now":
        return e.format_moment(turn.batch.now)
    if kind == "uuid":
        return str(uuid7(turn.desk.world))
    return turn.desk.world.random_bytes(8).hex()


def _started(
    turn: Turn, request: CallRequest, attempt: int, link: bytes | None
) -> tuple[e.CallStarted, Content]:
    content = turn.commit(request.input)
    tool, key = request.tool, call_key(turn.session.run_id, request.op, request.tool.id)
    event = e.CallStarted(
        args=request.args,
        attempt=attempt,
        input=content.ref,
        key=key,
        link=None if link is None else link.hex(),
        node=request.node,
        op=request.op,
        tool=e.ToolRef(id=tool.id, schema_digest=tool.output.digest, version=tool.version),
        wait=None if link is None else token_id(key, attempt),
    )
    return event, content


def _start_call(turn: Turn, request: CallRequest, *, attempt: int) -> None:
    link = new_link(turn.desk.world) if request.tool.pauses else None
    event, content = _started(turn, request, attempt, None if link is None else link.digest)
    turn.add(event, content)
    turn.effects.append(
        Effect(op=request.op, request=request, attempt=attempt, key=event.key, wait=event.wait, link=link)
    )


def _decide_race(turn: Turn, request: DecideRequest) -> None:
    waits = turn.state.waits
    lost = losing_branches(request.op, request.winner, {wait.op for wait in waits.values()})
    closing = [key for key, wait in waits.items() if wait.op in lost]
    discard_held(turn, closing, "branch-cancelled")
    turn.add(e.RaceDecided(closed=len(closing), op=request.op, winner=request.winner))


def _end(turn: Turn, outcome: object) -> None:
    discard_held(turn, turn.state.waits, "run-ended")
    if isinstance(outcome, Returned):
        output = turn.commit(outcome.output)
        turn.add(e.Completed(output=output.ref), output)
        return
    fail_run(turn, outcome.code, outcome.detail, node=outcome.node)  # type: ignore[attr-defined]


def suspended(state: RunState) -> e.Suspended:
    """The event that says what is left to wait for."""
    tokens = sum(wait.row.call_key is not None for wait in state.waits.values())
    listed = "\n".join(sorted(state.waits))
    return e.Suspended(
        approvals=0,
        open_waits=sha256(listed.encode()).hexdigest(),
        other=len(state.waits) - tokens,
        signals=0,
        tokens=tokens,
    )


def call_ended(turn: Turn, effect: Effect, result: CallResult) -> None:
    """Record how a handler's run ended, if the call still waits for this very run of it."""
    if turn.state.ended or not isinstance(effect.request, CallRequest):
        return
    if not effect.recorded:
        event, content = _started(turn, effect.request, 1, None)
        turn.add(event, content)
    call = turn.state.calls.get(effect.op)
    if (
        call is None
        or (call.attempt, call.ordinal) != (effect.attempt, effect.ordinal)
        or call.phase == "paused"
    ):
        return
    match result:
        case CallOutput():
            discard_held(turn, [call.wait] if call.wait else [], "answered-at-once")
            output = turn.commit(result.output)
            turn.add(e.CallCompleted(op=effect.op, output=output.ref), output)
        case CallPause():
            _pause(turn, call, result)
        case CallFailure():
            fail_call(turn, call, result.code, result.detail)


def _pause(turn: Turn, call: OpenCall, pause: CallPause) -> None:
    if call.op in turn.state.abandoned or call.wait is None:
        fail_call(turn, call, "branch-cancelled", "the branch that made this call lost")
        return
    held = turn.state.waits[call.wait].held
    due = min(turn.batch.now + timedelta(milliseconds=pause.timeout_ms), turn.state.started.expires_at)
    turn.add(e.CallPaused(line=pause.line, name=pause.name, op=call.op, times_out_at=due, wait=call.wait))
    if held is not None:
        turn.add(e.WaitTokenCompleted(answer=held, by="link", held=True, wait=call.wait))


def fail_call(turn: Turn, call: OpenCall, code: str, message: str, *, reason: str | None = None) -> None:
    """Record that a call failed, and its retry if its step has one left."""
    request = turn.session.driver.request(call.op)
    retry = request.retry if isinstance(request, CallRequest) else None
    final = retry is None or code in _NEVER_RETRIED or call.attempt >= retry.attempts
    held_reason = reason or ("call-failed" if final else "step-retried")
    discard_held(turn, [call.wait] if call.wait else [], held_reason)
    detail = turn.commit(canonical.encode(message))
    turn.add(
        e.CallFailed(attempt=call.attempt, code=code, detail=detail.ref, final=final, op=call.op), detail
    )
    if not final and retry is not None:
        due = turn.batch.now + timedelta(milliseconds=retry.delay_before(call.attempt + 1))
        turn.add(e.RetryScheduled(attempt=call.attempt + 1, due_at=due, op=call.op))


def step_ended(turn: Turn, request: StepRequest, result: CallOutput | CallFailure) -> None:
    """Record what a script's own function returned or raised, if the script still waits for it."""
    if turn.state.ended or turn.session.driver.request(request.op) is None:
        return
    if isinstance(result, CallOutput):
        output = turn.commit(result.output)
        turn.add(
            e.StepCompleted(args=request.args, name=request.name, op=request.op, output=output.ref), output
        )
    else:
        detail = turn.commit(canonical.encode(result.detail))
        turn.add(e.StepFailed(args=request.args, detail=detail.ref, name=request.name, op=request.op), detail)


def fire_deadlines(turn: Turn) -> None:
    """Record what has run out of time: the run itself, waits, timers, pauses before a retry.

    A deadline is judged by its stored time and this turn's unclamped time, whoever runs this and when.
    """
    if turn.state.ended:
        return
    if turn.now >= to_micros(turn.state.started.expires_at):
        fail_run(turn, EXPIRED, EXPIRED_TEXT)
        return
    due = [
        (wait.row.due, key)
        for key, wait in turn.state.waits.items()
        if wait.row.due is not None and wait.row.due <= turn.now
    ]
    for _, key in sorted(due):
        wait = turn.state.waits.get(key)
        if wait is not None:
            _fire(turn, key, wait.op)


def _fire(turn: Turn, key: str, op: str) -> None:
    if key.startswith("timer "):
        turn.add(e.TimerFired(op=op))
        return
    call = turn.state.calls.get(op)
    if call is None:
        raise HistoryDamagedError("a wait is open without its call", where=str(turn.session.run_id))
    if key.startswith("retry "):
        request = turn.session.driver.request(op)
        if isinstance(request, CallRequest):
            _start_call(turn, request, attempt=call.attempt + 1)
        return
    turn.add(e.WaitTokenTimedOut(wait=key))
    fail_call(turn, call, "wait-token-timed-out", "no answer came in time")


def take_answer(turn: Turn, wait_id: str, answer: bytes, *, by: str) -> None:
    """Record an answer: held if the run hasn't reached its wait, else taken. The wait must be open."""
    content = turn.commit(answer)
    if turn.state.waits[wait_id].row.state == "waiting":
        turn.add(e.WaitTokenCompleted(answer=content.ref, by=by, wait=wait_id), content)
    else:
        turn.add(e.WaitTokenAnswered(answer=content.ref, by=by, wait=wait_id), content)


def cancel(turn: Turn, actor: str | None) -> None:
    """End the run as cancelled. Raises `RunAlreadyTerminalError`."""
    if turn.state.ended:
        raise RunAlreadyTerminalError(turn.state.status)
    cancel_run(turn, actor)


def begin(
    turn: Turn, definition: e.DefinitionRef, input_: bytes, *, ttl: timedelta, labels: dict[str, str],
    actor: str | None, workspace: str, project: str,
) -> None:  # fmt: skip
    """Record the start of a new run."""
    content = turn.commit(input_)
    event = e.Started(
        actor=actor,
        definition=definition,
        expires_at=turn.batch.now + ttl,
        input=content.ref,
        key_id=turn.session.key.key_id,
        labels=labels or None,
        project=project,
        workspace=workspace,
    )
    turn.add(event, content)
