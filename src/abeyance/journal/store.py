"""The store's port: one conditional append, and reads that answer from indexed rows.

**Who arbitrates** (docs/adr/0004). `append` is the only write to a run. Its arbiter is a compare-and-swap on
the run's `run_control` row: the version *and* the lease must be what the writer saw, and the run's key must
be live; events, contents, waits and links go in with the same statement, and only for winners. A loser is
absent from the result, takes nothing with it, and decides again on what it then reads.

**Three classes of rows.** *Inline read models* (`run_control`, `waits`, `links`) are written here, with the
events, because answers are arbitrated by them. *Following read models* are in `abeyance.projections`.
*Scratch* (attempts, rate windows) may be lost.

Every row type below is a plain tuple of ids, integers, bytes and short texts: a store adapter needs no
knowledge of what an event means. Times are bigint microseconds since the epoch.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID


class EventRow(NamedTuple):
    """One signed event as stored. `state` is `kid[8] ‖ signature[64] ‖ deflated body`."""

    run_id: UUID
    version: int
    topic: str
    state: bytes


class ContentRow(NamedTuple):
    """The sealed content of the event at `version`. An event has at most one."""

    run_id: UUID
    version: int
    blob: bytes


class WaitRow(NamedTuple):
    """One thing that a run waits for, known by the version of the event that opened it (whose topic says what
    kind it is: `call-started` a wait token, `timer-set` a timer, `retry-scheduled` a retry, `code-mismatch`).

    `state` is `open`, `answered`, `waiting`, `completed`, `timed-out`, `cancelled` or `unused`. `call_key`
    and `ordinal` make a token's id, `pause:<call_key>:<ordinal>`; other kinds have none. `paused`, `answer`
    and `closed` are versions of the events that did so; `due` is the wait's deadline.
    """

    run_id: UUID
    opened: int
    call_key: UUID | None
    ordinal: int | None
    state: str
    paused: int | None = None
    answer: int | None = None
    due: int | None = None
    closed: int | None = None


class LinkRow(NamedTuple):
    """A link's digest (SHA-256 of its token) and the wait it answers."""

    digest: bytes
    run_id: UUID
    opened: int


class ReplyRow(NamedTuple):
    """An idempotency key. `scope` is a keyed hash of workspace, key holder, path and key, `request` one of
    the whole request. It is kept until `expires`, then its key is as good as new.
    """

    scope: bytes
    request: bytes
    created: int
    expires: int


class Control(NamedTuple):
    """A run's `run_control` row.

    `status` is `pending`, `running`, `suspended`, `completed`, `failed` or `cancelled`. `head` is the SHA-256
    of the newest event (its leaf hash). `due` is when the run must be looked at, `None` when it has ended.
    A lease is a random id, compared for equality. `definition` is the first 16 bytes of the digest of the
    definition that the run last moved under. `key_state` is `live` or `erased`.
    """

    run_id: UUID
    version: int
    head: bytes
    status: str
    due: int | None
    lease_id: UUID | None
    lease_until: int | None
    definition: bytes
    key_id: int
    key_state: str
    workspace: str
    project: str
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Append:
    """Everything that one decision writes to one run, in one statement.

    It wins only if the stored `run_control` row has version `expected_version` (0: there is none yet, and
    the row is inserted), lease `expected_lease` and a live key. `control` holds the new values; `due` and
    `lease_until` are taken from it only if the lease changes or nobody holds one, so that an acceptor never
    shortens what the lease's holder has renewed. `waits` are whole rows, inserted or put in place of the row
    with the same `(run_id, opened)`; a row that is closed already is never changed.

    A new run loses unless its tenant is active (`StoredWait.tenant`). A `reply` whose scope is kept already
    makes the append lose, whatever it is. The links with `dead_links` as digests are gone afterwards: who has
    one of them has an unknown link. `if_active`: it loses, as a new run does, unless its tenant is active.
    """

    expected_version: int
    expected_lease: UUID | None
    control: Control
    events: tuple[EventRow, ...]
    contents: tuple[ContentRow, ...] = ()
    waits: tuple[WaitRow, ...] = ()
    links: tuple[LinkRow, ...] = ()
    dead_links: tuple[bytes, ...] = ()
    reply: ReplyRow | None = None
    if_active: bool = False

    @property
    def run_id(self) -> UUID:
        """The run that is appended to."""
        return self.control.run_id


def check_appends(appends: Sequence[Append]) -> None:
    """Raise `ValueError` for a batch that can't be written: a caller's mistake, never a lost race."""
    if len(appends) > 1 and len({append.run_id for append in appends}) != len(appends):
        raise ValueError("a batch holds at most one append a run")
    for append in appends:
        run_id, first, last = append.run_id, append.expected_version + 1, append.control.version
        if [event.version for event in append.events] != list(range(first, last + 1)):
            raise ValueError("an append's events must lead from the expected version to the new one")
        if not all(first <= content.version <= last for content in append.contents):
            raise ValueError("a content belongs to an event of the same append")
        owners = [event.run_id for event in append.events] + [content.run_id for content in append.contents]
        owners += [wait.run_id for wait in append.waits] + [link.run_id for link in append.links]
        if any(owner != run_id for owner in owners):
            raise ValueError("every row of an append belongs to its run")


class StoredRun(NamedTuple):
    """A run as one read returns it: its control row, its events in version order, its contents by version."""

    control: Control
    events: list[EventRow]
    contents: dict[int, bytes]


class StoredWait(NamedTuple):
    """What the acceptor of an answer works from: the link's or token's wait, its run's control row, the run's
    newest event, and the event that opened the wait. `answer_blob` is the sealed answer that the wait
    holds or took, if there is one. `tenant` says whether the run's workspace and project let it go on:
    `active`, `tenant-suspended`, `tenant-closing` or `project-suspended`. The cost doesn't grow with the
    history.
    """

    wait: WaitRow
    control: Control
    newest: EventRow
    opening: EventRow
    answer_blob: bytes | None
    tenant: str = "active"


class OpenWait(NamedTuple):
    """A wait that is still open, with the event that opened it and, if it has been reached, the one that
    paused the run on it: what `waitingFor` is served from.
    """

    wait: WaitRow
    opening: EventRow
    pausing: EventRow | None


class RunRecord(NamedTuple):
    """What one run's view is served from: control row, first and newest event, the newest event's content
    (output or failure detail), and the waits that are still open.
    """

    control: Control
    first: EventRow
    newest: EventRow
    content: bytes | None
    waits: list[OpenWait]


class Claim(NamedTuple):
    """A run that the caller may now execute, under the lease it asked with. `lost`: how many workers were
    lost while the run was at this version.
    """

    run_id: UUID
    lease_id: UUID
    lost: int = 0


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Which runs a process may take. Lost hints cost nothing: `due` finds everything.

    Claimable is a run whose `due` has come (or that is `hinted` and ready), that nobody holds a live lease
    on, whose tenant is active, and whose definition is in `definitions` (or whose `due` is older than
    `grace_micros`: any process with room may then look whether its code fits). Hinted runs come first, then
    two thirds of the room for the newest ready, one third for the oldest due, so that neither starves the
    other. Runs of the workspaces in `passed` are left out, so that who has many can't take all the room;
    where there is only the default workspace such a request gets nothing, at no cost.
    """

    now: int
    lease_until: int
    room: int
    lease_ids: Sequence[UUID]
    definitions: Sequence[bytes]
    hinted: Sequence[UUID] = ()
    grace_micros: int = 60_000_000
    passed: Sequence[str] = ()


class SealedEvent(NamedTuple):
    """An event with its gap-free place in the whole journal, from 0."""

    sealed_index: int
    event: EventRow


class JournalSnapshot(Protocol):
    """One moment of a journal, for what reads all of it: checks and verifications. Ids ascend.

    Held open, it keeps old rows from being cleaned up; everything is read in pages, so that memory stays
    bounded.
    """

    async def streams(self, after: UUID | None, limit: int) -> list[UUID]:
        """Streams after `after` that have an event, a control row or a wait."""

    async def events(self, stream: UUID, *, after: int, limit: int) -> list[EventRow]:
        """A page of a stream in version order."""

    async def controls(self, run_ids: Sequence[UUID]) -> list[Control]:
        """The control rows of these runs."""

    async def waits(self, run_ids: Sequence[UUID]) -> list[WaitRow]:
        """All waits of these runs."""

    async def links(self, digests: Sequence[bytes]) -> list[LinkRow]:
        """The links with these digests."""

    async def links_after(self, digest: bytes, limit: int) -> list[LinkRow]:
        """Links whose digest is greater than `digest`, in ascending order."""

    async def count_links(self) -> int:
        """How many links there are."""

    async def sealed_size(self) -> int:
        """How many events have their index."""

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        """See `JournalStore.read_sealed`."""

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        """See `JournalStore.sealed_indexes`."""

    async def select(self, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of other tables in this database at the same moment. `$1` stands for the first value; ids are
        given as `UUID`, and come back as `UUID` or as 16 bytes.
        """


class JournalStore(Protocol):
    """A journal on one database. All methods raise `StoreUnavailableError` when the store is busy, full,
    read-only or gone; then nothing was written, except where `append` says otherwise.
    """

    async def append(self, appends: Sequence[Append]) -> list[bool]:
        """Write what wins; `True` for each append that did. A batch that `check_appends` refuses is a
        `ValueError`. A key (of an event or a link) that is there already makes its append lose. Raises
        `SigningKeyRetiredError` if an event is signed by a key that has ended.

        After a connection lost during COMMIT the adapter looks the first event up by (stream, version):
        the same bytes there mean that it landed.
        """

    async def read_run(self, run_id: UUID, *, after: int = 0, upto: int | None = None) -> StoredRun | None:
        """Control row, events with `after < version <= upto` and their contents; `None` if there is no
        run."""

    async def read_record(self, run_id: UUID) -> RunRecord | None:
        """What the run's view is served from."""

    async def read_events(
        self, run_id: UUID, *, after: int, limit: int, contents: bool
    ) -> tuple[list[EventRow], dict[int, bytes]]:
        """A page of a stream in version order, with the contents if they are asked for."""

    async def find_link(self, digest: bytes) -> StoredWait | None:
        """The wait that a link answers."""

    async def find_wait(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredWait | None:
        """The wait that a token id names, in this run."""

    async def find_content(self, run_id: UUID, version: int) -> bytes | None:
        """One sealed content."""

    async def append_stream(self, stream: UUID, expected_version: int, events: Sequence[EventRow]) -> bool:
        """Append to a stream that is not a run's (a workspace's, the deployment's). The primary key
        decides."""

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take runs that are due, each under one of `request.lease_ids`. An ended run is never taken."""

    async def renew(self, lease_ids: Sequence[UUID], lease_until: int) -> set[UUID]:
        """Prolong leases; returns those still held. Touches no indexed column."""

    async def release(self, run_id: UUID, lease_id: UUID, *, seen_version: int, due: int | None) -> None:
        """Give a lease back without an event: `due` if the version is still `seen_version`, else due now; a
        run that has ended meanwhile is due never.
        """

    async def offer(self, due: int, runs: Sequence[UUID] | None = None) -> int:
        """Make runs due at `due` that nobody holds and that would be due later: `runs`, or all that are
        parked until other code comes. Returns how many.
        """

    async def put_definition(self, digest: bytes, document: bytes) -> bool:
        """Store a definition or schema document by its SHA-256; `True` for whoever stored it first."""

    async def get_definition(self, digest: bytes) -> bytes | None:
        """The document with this digest, checked against it."""

    async def seal(self, limit: int) -> int:
        """Give up to `limit` committed events their index, in the order of docs/adr/0004; returns the new
        size.
        Safe to call from several processes at once: a compare-and-swap on the size lets one win.
        """

    async def read_sealed(self, start: int, limit: int) -> list[SealedEvent]:
        """Sealed events from index `start` on. Those whose rows are gone are left out, so indexes may
        skip."""

    async def sealed_indexes(self, stream: UUID, versions: Sequence[int]) -> dict[int, int]:
        """The sealed indexes of those of these events that have one, by version."""

    def snapshot(self) -> AbstractAsyncContextManager[JournalSnapshot]:
        """One moment of the journal, held until the block ends."""

    async def hint(self, run_ids: Sequence[UUID]) -> None:
        """Tell other processes that something happened to these runs. May be lost."""

    def hints(self) -> AsyncIterator[UUID]:
        """Hints from other processes (on SQLite: from this one). May miss some; polling is the truth."""

    async def now(self) -> int:
        """The deployment's time: the database's clock on PostgreSQL, the host's on SQLite."""

    async def check_writable(self) -> None:
        """Return if an append would be possible now, else raise `StoreUnavailableError`."""

    async def close(self) -> None:
        """Finish what is under way and let the database go."""


class KeyStore(Protocol):
    """Run keys, apart from the journal (docs/adr/0002). Keys come in blocks of 256, made by one commit;
    each is wrapped by the epoch key, which the master key wraps.
    """

    async def take(self, count: int) -> list[tuple[int, bytes]]:
        """`count` new keys that nobody else has or gets: `(key_id, key)`. Durable before it returns."""

    async def get(self, key_ids: Sequence[int]) -> dict[int, bytes]:
        """The keys that still exist."""

    async def delete(self, key_ids: Sequence[int]) -> None:
        """Destroy keys: what they sealed can't be opened any more."""

    async def rotate_epoch(self) -> int:
        """Wrap all keys anew under a new epoch key and destroy the old one; the new epoch's number."""

    async def secret(self, name: str) -> bytes:
        """A 32-byte secret of the deployment (made once, by name), wrapped like the run keys."""

    async def kept_checkpoint(self) -> str | None:
        """The checkpoint of the log that was kept last, a signed note."""

    async def keep_checkpoint(self, note: str, size: int) -> None:
        """Keep a checkpoint in place of one of a smaller size; nothing happens if a larger one is kept."""

    async def close(self) -> None:
        """Let the key store go."""
