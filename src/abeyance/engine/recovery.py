"""Calls whose worker was lost, or whose process was stopped in the middle of them."""

from collections.abc import Iterable

from abeyance.engine.decisions import fail_call
from abeyance.engine.links import new_link
from abeyance.engine.operations import CallRequest
from abeyance.engine.turn import MAX_RUNS_OF_A_CALL, Effect, Turn
from abeyance.journal import events as e
from abeyance.journal.run import OpenCall


def recover(turn: Turn) -> None:
    """Run again the calls whose worker was lost: at most five runs in all, with fresh links to the same
    wait. A call is lost that is under way by the journal and not here, nor begins in this turn."""
    here = {*turn.session.running, *(effect.op for effect in turn.effects)}
    for call in list(turn.state.calls.values()):
        if call.phase not in ("running", "drained") or call.op in here:
            continue
        request = turn.session.driver.request(call.op)
        if call.op in turn.state.abandoned or not isinstance(request, CallRequest):
            fail_call(turn, call, "branch-cancelled", "the branch that made this call lost")
        elif call.phase == "running" and call.ordinal >= MAX_RUNS_OF_A_CALL:
            code = "wait-token-reruns-exhausted" if call.wait is not None else "call-reruns-exhausted"
            fail_call(turn, call, code, "five runs of this call were lost", reason="reruns-exhausted")
        else:
            _run_again(turn, call, request)


def _run_again(turn: Turn, call: OpenCall, request: CallRequest) -> None:
    link = new_link(turn.desk.world) if call.wait is not None else None
    lost = call.phase == "running"
    ordinal = call.ordinal + 1 if lost else call.ordinal
    turn.add(
        e.Rerun(
            cause="worker-lost" if lost else "drained",
            link=None if link is None else link.digest.hex(),
            op=call.op,
            ordinal=ordinal,
        )
    )
    turn.effects.append(
        Effect(
            op=call.op, request=request, attempt=call.attempt, ordinal=ordinal, key=call.key,
            wait=call.wait, link=link,
        )
    )  # fmt: skip


def give_back(turn: Turn, ops: Iterable[str]) -> None:
    """Record that a drain stopped these calls: their next run isn't counted."""
    for op in ops:
        call = turn.state.calls.get(op)
        if call is not None and call.phase == "running":
            turn.add(e.Rerun(cause="drained", op=op, ordinal=call.ordinal))
