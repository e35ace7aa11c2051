"""What `abeyance waits` says to people: tables, sentences, the next command."""

from collections.abc import Iterator
from datetime import datetime

from abeyance.cli.output import print_table, say, visible
from abeyance.client.waits import Wait, WaitPage

OPEN = frozenset({"open", "waiting"})
ROTATED = "This is the only time that the link is shown. All older links of this wait are dead."
_ENDS = {
    "answered": "holds an answer that its run hasn't taken yet",
    "completed": "was answered",
    "timed-out": "timed out",
    "cancelled": "was cancelled",
    "unused": "was never reached: its call ended otherwise",
}


def print_waits(page: WaitPage) -> None:
    """A line a wait: since when, what for, which tool, where, until when, whose."""
    print_table(("since", "waits for", "tool", "step", "line", "until", "run", "wait"), map(_row, page.data))
    if page.next_cursor:
        say(f"There are more: --cursor={visible(page.next_cursor)}")


def print_attempts(wait: Wait) -> None:
    """A line an attempt, newest first."""
    attempts = () if wait.attempts is None else wait.attempts.newest
    rows = ((_time(each.at), each.verdict, _size(each.size), each.client) for each in attempts)
    print_table(("time", "verdict", "size", "sender"), rows)


def sentences(wait: Wait) -> list[str]:
    """Where a wait is, what was tried at its links, and what can be done."""
    return [visible(sentence) for sentence in _sentences(wait)]


def extended(wait: Wait) -> str:
    """The deadline after it was moved."""
    return visible(f"{_what(wait)} now times out at {_time(wait.due_at)}.")


def revoked(wait: Wait) -> list[str]:
    """What is left after the links were killed."""
    return [
        visible(sentence)
        for sentence in ("No link answers this wait any more; it stays open.", _by_hand(wait), _rotate(wait))
    ]


def _sentences(wait: Wait) -> Iterator[str]:
    if wait.state not in OPEN:
        closed = f" at {_time(wait.closed_at)}" if wait.closed_at else ""
        yield f"{_what(wait)} {_ENDS.get(wait.state, wait.state)}{closed}."
    elif wait.kind != "token":
        due = f" until {_time(wait.due_at)}" if wait.due_at else ""
        yield f"Run {wait.run_id} waits for {wait.kind}{_step(wait)}{due}."
    else:
        yield _waiting(wait)
    if wait.attempts is not None and wait.attempts.counts:
        counts = ", ".join(f"{times} {verdict}" for verdict, times in wait.attempts.counts.items())
        yield f"Requests with its links so far: {counts}."
    if wait.kind == "token" and wait.state in OPEN:
        yield _by_hand(wait)


def _waiting(wait: Wait) -> str:
    count = wait.links or 0
    links = {0: "no link answers it", 1: "1 link answers it"}.get(count, f"{count} links answer it")
    if wait.state == "open":
        return f"Run {wait.run_id} hasn't reached this wait yet{_step(wait)}; {links}."
    due = f" and times out at {_time(wait.due_at)}" if wait.due_at else ""
    return f"{_what(wait)} is open since {_time(wait.created_at)}{due}; {links}."


def _what(wait: Wait) -> str:
    named = f'"{wait.name}"' if wait.name else wait.id
    return f"The wait for {named} of run {wait.run_id}"


def _by_hand(wait: Wait) -> str:
    return f"To answer it by hand: abeyance runs resume {wait.run_id} --waitpoint={wait.id} --output=<json>"


def _rotate(wait: Wait) -> str:
    return f"To make a new link: abeyance waits rotate {wait.run_id} {wait.id}"


def _row(wait: Wait) -> tuple[str, ...]:
    what = wait.name or (wait.kind if wait.tool is None else "an answer")
    tool = "" if wait.tool is None else f"{wait.tool.id}@{wait.tool.version}"
    since, until = _time(wait.created_at), _time(wait.due_at)
    return (since, what, tool, wait.node_id or "", wait.line or "", until, wait.run_id, wait.id)


def _step(wait: Wait) -> str:
    return f" in step {wait.node_id}" if wait.node_id else ""


def _size(size: int | None) -> str:
    return "" if size is None else f"up to {size}"


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
