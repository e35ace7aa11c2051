"""`client.waits`: what runs wait for, and changes of wait tokens: deadlines, links."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

from abeyance.client.encoding import encode_members
from abeyance.client.results import Json, ToolRef, checked, parse_time, parse_time_or_none

if TYPE_CHECKING:
    from abeyance.client.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAttempt:
    """One request with a link of a wait. `size` is a bucket of bytes, `client` a keyed hash."""

    at: datetime
    verdict: str
    size: int | None
    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAttempts:
    """What was tried at a wait's links: how often there was each verdict, and the newest attempts."""

    counts: Mapping[str, int]
    newest: tuple[LinkAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Something that a run waits for, or waited for. `due_at` is its deadline, or when it ends by itself.

    `links` is how many of a wait token's links work, `attempts` is there where one wait was asked for. `link`
    is there only where it was just made: it is told once.
    """

    id: str
    run_id: str
    kind: str
    state: str
    name: str | None
    tool: ToolRef | None
    node_id: str | None
    line: str | None
    created_at: datetime
    due_at: datetime | None
    closed_at: datetime | None
    links: int | None
    workspace_id: str
    project_id: str
    attempts: LinkAttempts | None = None
    link: str | None = field(default=None, repr=False)
    source: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPage:
    """A page of open waits, oldest first."""

    data: tuple[Wait, ...]
    next_cursor: str | None
    has_more: bool
    source: str = field(default="", repr=False)


class Waits:
    """What the runs of one server wait for. Refusals are raised as `ApiError`."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    def list(
        self,
        *,
        kind: str | None = None,
        name: str | None = None,
        tool: str | None = None,
        run: str | UUID | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> WaitPage:
        """A page of open waits, oldest first; all filters must hold. `kind` is `token`, `timer`, `retry`,
        `code-mismatch` or `crash-loop`.
        """
        query = {"kind": kind, "name": name, "tool": tool, "run": run, "limit": limit, "cursor": cursor}
        return parse_waits(*self._transport.get("/v1/waits", query))

    def get(self, run_id: str | UUID, wait_id: str) -> Wait:
        """A wait, open or closed, with the newest attempts at its links."""
        return parse_wait(*self._transport.get(_path(run_id, wait_id), {}))

    def extend(
        self, run_id: str | UUID, wait_id: str, *, until: datetime, idempotency_key: str | None = None
    ) -> Wait:
        """Move a wait's deadline to `until`, which must know its time zone; the wait after it."""
        if until.utcoffset() is None:
            raise ValueError("until has no time zone")
        body = encode_members({"until": until.isoformat()})
        return self._change(run_id, wait_id, "extend", body, idempotency_key)

    def rotate(self, run_id: str | UUID, wait_id: str, *, idempotency_key: str | None = None) -> Wait:
        """Make a new link and kill the old ones; the wait after it, with its `link`, which is told once."""
        return self._change(run_id, wait_id, "rotate", b"{}", idempotency_key)

    def revoke(self, run_id: str | UUID, wait_id: str, *, idempotency_key: str | None = None) -> Wait:
        """Kill all links of a wait, which stays open; the wait after it."""
        return self._change(run_id, wait_id, "revoke", b"{}", idempotency_key)

    def _change(self, run_id: str | UUID, wait_id: str, what: str, body: bytes, key: str | None) -> Wait:
        path = f"{_path(run_id, wait_id)}/{what}"
        return parse_wait(*self._transport.post(path, body, idempotency_key=key))


def _path(run_id: str | UUID, wait_id: str) -> str:
    return f"/v1/runs/{quote(str(run_id), safe='')}/waits/{quote(wait_id, safe='')}"


def parse_wait(reply: Json, source: str) -> Wait:
    """The wait in a reply."""
    return checked(lambda: _wait(reply, source))


def parse_waits(reply: Json, source: str) -> WaitPage:
    """The page of waits in a reply. Only the page has the source."""
    return checked(
        lambda: WaitPage(
            data=tuple(_wait(wait, "") for wait in reply["data"]),
            next_cursor=reply.get("nextCursor"),
            has_more=bool(reply["hasMore"]),
            source=source,
        )
    )


def _wait(reply: Json, source: str) -> Wait:
    tool, attempts = reply.get("tool"), reply.get("attempts")
    return Wait(
        id=reply["waitId"],
        run_id=reply["runId"],
        kind=reply["kind"],
        state=reply["state"],
        name=reply.get("name"),
        tool=None if tool is None else ToolRef(tool["id"], tool["version"]),
        node_id=reply.get("nodeId"),
        line=reply.get("line"),
        created_at=parse_time(reply["createdAt"]),
        due_at=parse_time_or_none(reply.get("timesOutAt") or reply.get("dueAt")),
        closed_at=parse_time_or_none(reply.get("closedAt")),
        links=reply.get("links"),
        workspace_id=reply["workspaceId"],
        project_id=reply["projectId"],
        attempts=None if attempts is None else _attempts(attempts),
        link=reply.get("link"),
        source=source,
    )


def _attempts(reply: Json) -> LinkAttempts:
    newest = (
        LinkAttempt(
            at=parse_time(tried["at"]),
            verdict=tried["verdict"],
            size=tried.get("size"),
            client=tried["client"],
        )
        for tried in reply["newest"]
    )
    return LinkAttempts(counts=dict(reply["counts"]), newest=tuple(newest))
