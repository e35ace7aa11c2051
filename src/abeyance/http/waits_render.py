"""What the API answers about waits, as bytes. `abeyance.http.waits_schemas` has the same shapes as models."""

from abeyance.engine.waits import ShownWait
from abeyance.http.render import dump, format_time
from abeyance.journal.attempts import Attempt, StoredAttempts
from abeyance.projections.wait_view import WaitView
from abeyance.world import from_micros

TOKEN = "token"


def wait(view: WaitView) -> bytes:
    """A wait, without what was tried."""
    return dump(_wait(view))


def shown(found: ShownWait) -> bytes:
    """A wait with what was tried at its links."""
    return dump({**_wait(found.wait), "attempts": _attempts(found.attempts)})


def rotated(view: WaitView, link: str) -> bytes:
    """A wait with its new link."""
    return dump({**_wait(view), "link": link})


def _wait(view: WaitView) -> dict[str, object]:
    tool = None if view.tool_id is None else {"id": view.tool_id, "version": view.tool_version}
    due = None if view.due_at is None else format_time(view.due_at)
    fields = {
        "waitId": view.id,
        "runId": str(view.run_id),
        "kind": view.kind,
        "state": view.state,
        "name": view.name,
        "tool": tool,
        "nodeId": view.node,
        "line": view.line,
        "createdAt": format_time(view.created_at),
        "timesOutAt" if view.kind == TOKEN else "dueAt": due,
        "closedAt": None if view.closed_at is None else format_time(view.closed_at),
        "links": view.links,
        "workspaceId": view.workspace,
        "projectId": view.project,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _attempts(stored: StoredAttempts) -> dict[str, object]:
    counts = dict(sorted(stored.counts.items()))
    return {"counts": counts, "newest": [_attempt(attempt) for attempt in stored.newest]}


def _attempt(attempt: Attempt) -> dict[str, object]:
    size = {} if attempt.size is None else {"size": attempt.size}
    at = format_time(from_micros(attempt.at))
    return {"at": at, "verdict": attempt.verdict, **size, "client": attempt.client.hex()}
