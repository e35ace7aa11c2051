"""Rows for tests of the stores: shaped as the engine makes them, with bytes that mean nothing."""

import hashlib
from typing import Any
from uuid import UUID

from abeyance.journal.store import Append, ContentRow, Control, EventRow, LinkRow, WaitRow
from abeyance.world import SystemWorld, uuid7

WORLD = SystemWorld()
DEFINITION = b"definition-one16"
OTHER_DEFINITION = b"definition-two16"
HOUR = 3_600_000_000


def new_id() -> UUID:
    return uuid7(WORLD)


def event(run_id: UUID, version: int, topic: str = "call-started") -> EventRow:
    """An event whose bytes tell which one it is."""
    return EventRow(run_id, version, topic, b"event\x00" + run_id.bytes + version.to_bytes(8))


def content(run_id: UUID, version: int) -> ContentRow:
    return ContentRow(run_id, version, b"content\x00" + version.to_bytes(8))


def wait(run_id: UUID, opened: int, **changes: Any) -> WaitRow:
    call_key = UUID(bytes=hashlib.sha256(run_id.bytes + bytes([opened % 256])).digest()[:16])
    return WaitRow(run_id, opened, call_key, 1, "open")._replace(**changes)


def link(run_id: UUID, opened: int) -> LinkRow:
    return LinkRow(hashlib.sha256(new_id().bytes).digest(), run_id, opened)


def start(*, run_id: UUID | None = None, events: int = 1, **changes: Any) -> Append:
    """The first append of a run: pending, due at once, held by nobody."""
    run = run_id or new_id()
    control = Control(
        run_id=run,
        version=events,
        head=hashlib.sha256(run.bytes).digest(),
        status="pending",
        due=1_000,
        lease_id=None,
        lease_until=None,
        definition=DEFINITION,
        key_id=1,
        key_state="live",
        workspace="default",
        project="default",
        created=1_000,
        updated=1_000,
    )
    rows = tuple(event(run, version, "started") for version in range(1, events + 1))
    return Append(0, None, control._replace(**changes), rows)


def follow(control: Control, *, events: int = 1, **changes: Any) -> Append:
    """An append on what `control` says, under the lease it names. `changes` are of the new control row."""
    version = control.version + events
    rows = tuple(event(control.run_id, number) for number in range(control.version + 1, version + 1))
    head = hashlib.sha256(control.head).digest()
    new = control._replace(version=version, head=head)._replace(**changes)
    return Append(control.version, control.lease_id, new, rows)
