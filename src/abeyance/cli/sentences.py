"""What a run waits for, in sentences for people, and as an exit code for programs."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from abeyance.cli.output import visible
from abeyance.client.results import OtherWait, Run, WaitToken

FINE, FAILED, WAITS_FOR_APPROVAL, WAITS_FOR_OTHER, WAITS_FOR_ANSWER = 0, 1, 3, 4, 5


def exit_code(run: Run) -> int:
    """0: waits for nothing. 3: for an approval. 5: for an answer or a signal. 4: for something else."""
    waiting = run.waiting_for
    if waiting is None:
        return FINE
    if waiting.approvals:
        return WAITS_FOR_APPROVAL
    if waiting.tokens or waiting.signals:
        return WAITS_FOR_ANSWER
    return WAITS_FOR_OTHER


def sentences(run: Run) -> list[str]:
    """One sentence a wait; none if the run waits for nothing."""
    return [visible(sentence) for sentence in _sentences(run)]


def state(run: Run) -> str:
    """Where a run is that waits for nothing."""
    if run.failure is None:
        return visible(f"Run {run.id} waits for nothing: it is {run.status}.")
    step = f" in step {run.failure.node_id}" if run.failure.node_id else ""
    message = f": {run.failure.message}" if run.failure.message else ""
    return visible(f"Run {run.id} is {run.status}{step}: {run.failure.code}{message}")


def _sentences(run: Run) -> Iterator[str]:
    waiting = run.waiting_for
    if waiting is None:
        return
    for approval in waiting.approvals:
        yield f"Run {run.id} waits for {_approval(approval)}"
    for token in waiting.tokens:
        yield f"Run {run.id} waits for {_token(run, token, named=len(waiting.tokens) > 1)}"
    for signal in waiting.signals:
        yield f"Run {run.id} waits for {_signal(signal)}"
    for other in waiting.other:
        yield f"Run {run.id} waits for {_other(other)}"
    if not (waiting.approvals or waiting.tokens or waiting.signals or waiting.other):
        yield f"Run {run.id} is suspended and says of no wait."


def _token(run: Run, token: WaitToken, *, named: bool) -> str:
    what = f'"{token.name}"' if token.name else "an answer"
    which = f" --waitpoint={token.token_id}" if named else ""
    tool = f"{token.tool.id}@{token.tool.version}"
    return (
        f"{what} from another system, for its call to {tool} in step {token.node_id}. "
        "It continues once that system answers through the link the tool handed on, or: "
        f"abeyance runs resume {run.id}{which} --output=<json>. It times out at {_time(token.times_out_at)}."
    )


def _approval(approval: Mapping[str, Any]) -> str:
    tool = approval.get("tool") or {}
    role = f" by the role {approval['requiredRole']}" if approval.get("requiredRole") else ""
    until = f" It expires at {approval['expiresAt']}." if approval.get("expiresAt") else ""
    return f"an approval{role} of its call to {tool.get('id')}@{tool.get('version')}.{until}"


def _signal(signal: Mapping[str, Any]) -> str:
    line = f" at {signal['line']}" if signal.get("line") else ""
    until = f" It times out at {signal['timesOutAt']}." if signal.get("timesOutAt") else ""
    return f'the signal "{signal.get("name")}"{line}.{until}'


_OTHER = {
    "timer": "a timer",
    "retry": "the next try",
    "child-run": "a child run",
    "credentials": "renewed credentials",
    "queued": "its turn",
    "code-mismatch": "code that fits its journal",
    "crash-loop": "a person: its process died again and again with nothing done; once its code is mended, "
    "`abeyance runs retry` lets it go on",
    "history-damaged": "a person: its stored history doesn't hold together",
}


def _other(other: OtherWait) -> str:
    step = f" in step {other.node_id}" if other.node_id else ""
    due = f" due at {_time(other.due_at)}" if other.due_at else ""
    details = ", ".join(f"{name} {value}" for name, value in other.details.items())
    return f"{_OTHER.get(other.what, other.what)}{step}{due}{f' ({details})' if details else ''}."


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
