"""Appends as the engine makes them, with bytes that stand for signed and sealed ones."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from abeyance.journal.store import Append, ContentRow, Control, EventRow, LinkRow, WaitRow
from abeyance.world import SystemWorld, uuid7

WORLD = SystemWorld()
DEFINITION = bytes(range(16))
CALL = UUID("0192a0b1-0000-5000-8000-00000000000c")
NOW = 1_790_000_000_000_000
MINUTE = 60_000_000
TOPICS = ("started", "call-started", "call-paused", "suspended", "wait-token-completed", "completed")


def new_run() -> UUID:
    return uuid7(WORLD)


def new_lease() -> UUID:
    return UUID(bytes=WORLD.random_bytes(16))


def new_control(run_id: UUID, version: int = 1, **changes: object) -> Control:
    """A running run that nobody has leased, due now."""
    control = Control(
        run_id=run_id, version=version, head=bytes(32), status="running", due=NOW, lease_id=None,
        lease_until=None, definition=DEFINITION, key_id=1, key_state="live", workspace="default",
        project="default", created=NOW, updated=NOW,
    )  # fmt: skip
    return control._replace(**changes)  # type: ignore[arg-type]


def new_events(run_id: UUID, versions: Sequence[int], size: int = 250) -> tuple[EventRow, ...]:
    return tuple(
        EventRow(run_id, version, TOPICS[(version - 1) % len(TOPICS)], WORLD.random_bytes(size))
        for version in versions
    )


def new_contents(run_id: UUID, versions: Sequence[int], size: int = 130) -> tuple[ContentRow, ...]:
    return tuple(ContentRow(run_id, version, WORLD.random_bytes(size)) for version in versions)


def new_append(run_id: UUID, *, after: int = 0, count: int = 1, **changes: object) -> Append:
    """`count` events after version `after`; `changes` are of the control row, `lease` what it has now."""
    lease = changes.pop("lease", None)
    assert lease is None or isinstance(lease, UUID)
    control = new_control(run_id, after + count, **{"lease_id": lease, **changes})
    events = new_events(run_id, range(after + 1, after + count + 1))
    head = hashlib.sha256(events[-1].state).digest() if events else bytes(32)
    return Append(after, lease, control._replace(head=head), events)


def with_wait(append: Append, opened: int, **changes: object) -> Append:
    """The same append, which also writes the wait that event `opened` opened."""
    wait = WaitRow(append.run_id, opened, CALL, 1, "open", due=NOW + MINUTE)
    return replace(append, waits=(*append.waits, wait._replace(**changes)))  # type: ignore[arg-type]


def with_link(append: Append, opened: int, digest: bytes) -> Append:
    return replace(append, links=(*append.links, LinkRow(digest, append.run_id, opened)))
