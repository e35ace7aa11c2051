"""The list of runs: what `GET /v1/runs` filters and orders by, one narrow row a run.

It holds no more than that: what is shown of a run comes from the inline read models, which are never behind.
Newest first is by run id: a UUIDv7 begins with the millisecond in which it was made (RFC 9562, section 5.7).
"""

import base64
import binascii
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from abeyance.errors import HistoryDamagedError, InvalidCursorError, UnknownEventError
from abeyance.journal import events as e
from abeyance.journal.body import BODY_VERSION, parse_body
from abeyance.journal.envelope import EventCodec
from abeyance.journal.run import KEEPS_STATUS
from abeyance.journal.store import EventRow, SealedEvent
from abeyance.journal.tenant_events import TENANT_EVENTS
from abeyance.projections.read_models import (
    ChangedRun,
    NewRun,
    Place,
    ReadModelStore,
    RunsChanges,
    to_uuid,
)
from abeyance.projections.views import Page
from abeyance.world import to_micros

_log = logging.getLogger("abeyance.projections")

# The status that a run has after an event; every other event of a run but those below makes it running.
STATUS_AFTER: Mapping[str, str] = {
    e.Started.topic: "pending",
    e.Suspended.topic: "suspended",
    e.CodeMismatch.topic: "suspended",
    e.CrashLoop.topic: "suspended",
    e.Completed.topic: "completed",
    e.Failed.topic: "failed",
    e.Cancelled.topic: "cancelled",
}
# Events that leave the status as it was.
KEEPS_STATUS_TOPICS = frozenset(kind.topic for kind in KEEPS_STATUS)
# Events of the deployment's and the workspaces' streams, which the list passes over.
_OTHERS: tuple[type[e.Event], ...] = (
    e.LogOpened, e.KeyAdded, e.KeyRetired, e.KeyRevoked, e.Exported, e.DefinitionRecorded, *TENANT_EVENTS,
    e.ApiKeyCreated, e.ApiKeyRevoked,
)  # fmt: skip
OTHER_TOPICS = frozenset(kind.topic for kind in _OTHERS)

_RUN_TOPICS = frozenset(e.EVENT_TYPES) - OTHER_TOPICS

_LIVE = "(SELECT generation FROM read_models WHERE name = 'runs' AND live)"
_FROM_RUNS = f"SELECT r.run_id FROM runs_list AS r WHERE r.generation = {_LIVE}"
_FROM_LABELS = (
    "SELECT r.run_id FROM runs_list_labels AS l"
    " JOIN runs_list AS r ON r.generation = l.generation AND r.run_id = l.run_id"
    f" WHERE l.generation = {_LIVE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsFilter:
    """Which runs to list. All that is given must hold; `created_from` is included, `created_before` isn't."""

    workspace: str | None = None
    project: str | None = None
    status: str | None = None
    definition: str | None = None
    label: tuple[str, str] | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


class RunsList:
    """See the module."""

    name = "runs"

    def __init__(self, store: ReadModelStore, codec: EventCodec) -> None:
        self._store = store
        self._codec = codec

    async def apply(self, place: Place, position: int, batch: Sequence[SealedEvent]) -> bool:
        """See `ReadModel.apply`."""
        changes = runs_changes((sealed.event for sealed in batch), self._codec)
        return await self._store.apply_runs(place, position, changes)

    async def find(self, wanted: RunsFilter, *, limit: int, cursor: str | None = None) -> Page[UUID]:
        """A page of run ids, newest first. Raises `InvalidCursorError`."""
        before = None if cursor is None else parse_cursor(cursor)
        text, values = query_of(wanted, before, limit + 1)
        found = [to_uuid(run_id) for (run_id,) in await self._store.select(text, values)]
        page = tuple(found[:limit])
        return Page(data=page, next_cursor=format_cursor(page[-1]) if len(found) > limit else None)


def runs_changes(events: Iterable[EventRow], codec: EventCodec) -> RunsChanges:
    """What events, in sealed order, do to the list: at most one change a run.

    An event that is damaged makes no row and is left to verification; the runs after it are listed.
    """
    new: dict[UUID, NewRun] = {}
    newest: dict[UUID, EventRow] = {}
    statuses: dict[UUID, str] = {}
    for row in events:
        topic = row.topic
        if topic == e.Started.topic:
            started = _new_run(row, codec)
            if started is not None:
                new[row.run_id] = started
        elif topic in _RUN_TOPICS or _is_newer(row, codec):
            newest[row.run_id] = row
            if topic not in KEEPS_STATUS_TOPICS:
                statuses[row.run_id] = STATUS_AFTER.get(topic, "running")
    changed = []
    for run_id, row in newest.items():
        change = ChangedRun(run_id, row.version, statuses.get(run_id))
        if run_id in new:
            status = change.status or new[run_id].status
            new[run_id] = new[run_id]._replace(version=change.version, status=status)
        else:
            changed.append(change)
    return RunsChanges(list(new.values()), changed)


def _is_newer(row: EventRow, codec: EventCodec) -> bool:
    """Never true: another stream's event or a damaged one is passed over, a newer release's is raised."""
    if row.topic not in OTHER_TOPICS:
        try:
            codec.open(row)
        except HistoryDamagedError as error:
            _log.error("the list of runs passes over a damaged event: %s", error)
    return False


def _new_run(row: EventRow, codec: EventCodec) -> NewRun | None:
    """The row of a new run. Its body is read, not checked: verification does that, a list needs it fast."""
    try:
        body = parse_body(codec.plain(row))
        if body.v != BODY_VERSION:
            raise UnknownEventError(body.topic, body.v)
        data = json.loads(body.data)
        definition, labels = str(data["definition"]["id"]), dict(data.get("labels") or {})
    except (HistoryDamagedError, ValueError, TypeError, KeyError):
        _log.error("the list leaves out run %s, whose first event is damaged", row.run_id)
        return None
    return NewRun(row.run_id, to_micros(body.at), 1, "pending", definition, labels)


def query_of(wanted: RunsFilter, before: UUID | None, limit: int) -> tuple[str, list[Any]]:
    """The statement that finds the newest runs that fit, older than `before`, and its values."""
    values: list[Any] = []

    def bound(value: object) -> str:
        values.append(value)
        return f"${len(values)}"

    text, key = (_FROM_RUNS, "r.run_id") if wanted.label is None else (_FROM_LABELS, "l.run_id")
    if wanted.label is not None:
        name, value = wanted.label
        text += f" AND l.name = {bound(name)} AND l.value = {bound(value)}"
    conditions = (
        ("r.status = ", wanted.status),
        ("r.definition = ", wanted.definition),
        ("r.created >= ", None if wanted.created_from is None else to_micros(wanted.created_from)),
        ("r.created < ", None if wanted.created_before is None else to_micros(wanted.created_before)),
        (f"{key} < ", before),
    )
    tenant = [(column, given) for column in ("workspace", "project") if (given := getattr(wanted, column))]
    if tenant:
        # Where a run belongs is in its control row, which stays; the list has no copy of it.
        text += " AND EXISTS (SELECT 1 FROM run_control AS c WHERE c.run_id = r.run_id"
        text += "".join(f" AND c.{column} = {bound(given)}" for column, given in tenant) + ")"
    for condition, given in conditions:
        if given is not None:
            text += f" AND {condition}{bound(given)}"
    return f"{text} ORDER BY {key} DESC LIMIT {bound(limit)}", values


def format_cursor(run_id: UUID) -> str:
    """The cursor of the page that begins after this run."""
    return base64.urlsafe_b64encode(b"r" + run_id.bytes).decode().rstrip("=")


def parse_cursor(cursor: str) -> UUID:
    """The run that `format_cursor` wrote. Raises `InvalidCursorError` for any other text."""
    try:
        stored = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursorError("the cursor wasn't made by this list") from error
    if len(stored) != 17 or not stored.startswith(b"r"):
        raise InvalidCursorError("the cursor wasn't made by this list")
    return UUID(bytes=stored[1:])
