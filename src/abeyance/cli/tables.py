"""Tables for people: `--table`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from abeyance.cli.output import print_table, say, visible
from abeyance.client.encoding import encode
from abeyance.client.keys import ApiKey, ApiKeyPage
from abeyance.client.results import AuditPage, JournalEvent, JournalPage, Run, RunPage
from abeyance.client.tenants import ProjectPage, WorkspacePage


def print_runs(page: RunPage) -> None:
    """A line a run: id, status, definition, when it started, its labels, what it waits for."""
    columns = ("run", "status", "definition", "created", "labels", "waits for")
    print_table(columns, map(_run, page.data))
    if page.next_cursor:
        say(f"There are more: --cursor={visible(page.next_cursor)}")


def print_journal(page: JournalPage, *, content: bool) -> None:
    """A line an event: sequence, time, event, step, and if it was asked for what was said."""
    columns = ("#", "time", "event", "step", *(("content",) if content else ()))
    rows = ((*_event(event), *((_json(event.content),) if content else ())) for event in page.data)
    print_table(columns, rows)
    if page.has_more:
        say(f"There are more: --after={page.data[-1].sequence}")


def print_audit_log(page: AuditPage) -> None:
    """A line an event: index, run, sequence, time, event, step, and an answer's size and SHA-256."""
    rows = (
        (str(record.index), record.run_id, *_event(record.event), _answer(record.answer))
        for record in page.data
    )
    print_table(("index", "run", "#", "time", "event", "step", "answer"), rows)
    if page.has_more:
        say(f"There are more: --after={page.data[-1].index}")


def print_keys(page: ApiKeyPage) -> None:
    """A line a key: id, name, project, grants, what it executes, when it was made and ends."""
    print_table(("key", "name", "project", "grants", "executes", "created", "good"), map(_key, page.data))
    if page.next_cursor:
        say(f"There are more: --cursor={visible(page.next_cursor)}")


def print_workspaces(page: WorkspacePage) -> None:
    """A line a workspace: name, state, when it was made and changed."""
    rows = ((each.id, each.state, _or_none(each.created_at), _or_none(each.updated_at)) for each in page.data)
    print_table(("workspace", "state", "created", "changed"), rows)
    if page.next_cursor:
        say(f"There are more: --cursor={visible(page.next_cursor)}")


def print_projects(page: ProjectPage) -> None:
    """A line a project: name, workspace, state, when it was made and changed."""
    rows = (
        (each.id, each.workspace_id, each.state, _or_none(each.created_at), _or_none(each.updated_at))
        for each in page.data
    )
    print_table(("project", "workspace", "state", "created", "changed"), rows)
    if page.next_cursor:
        say(f"There are more: --cursor={visible(page.next_cursor)}")


def _or_none(moment: datetime | None) -> str:
    return "" if moment is None else _time(moment)


def _key(key: ApiKey) -> tuple[str, ...]:
    executes = "" if "execute" not in key.grants else ", ".join(key.executes or ("all",))
    good = "" if key.expires_at is None else f"until {_time(key.expires_at)}"
    if key.revoked_at is not None:
        good = f"revoked {_time(key.revoked_at)}"
    rights = (key.project_id or "all", ", ".join(key.grants), executes)
    return (key.id, key.name, *rights, _time(key.created_at), good)


def _run(run: Run) -> tuple[str, ...]:
    labels = ", ".join(f"{name}={value}" for name, value in run.labels.items())
    definition = f"{run.definition_id}@{run.version}"
    return (run.id, run.status, definition, _time(run.created_at), labels, ", ".join(_waits(run)))


def _waits(run: Run) -> list[str]:
    waiting = run.waiting_for
    if waiting is None:
        return []
    return [
        *("an approval" for _ in waiting.approvals),
        *(token.name or f"an answer to {token.tool.id}" for token in waiting.tokens),
        *(f"signal {signal.get('name')}" for signal in waiting.signals),
        *(other.what for other in waiting.other),
    ]


def _event(event: JournalEvent) -> tuple[str, ...]:
    return (str(event.sequence), _time(event.timestamp), event.kind, event.node_id or "")


def _answer(answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return ""
    return "erased" if answer.get("erased") else f"{answer.get('size')} bytes {answer.get('sha256')}"


def _json(value: object) -> str:
    return "" if value is None else encode(value).decode()


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
