"""A batch: the events that one decision appends to one run, built up one by one and written as one `Append`.

Each event is signed and chained when it is added, its content is sealed for its version, and the run's
state and rows follow by `evolve`. Nothing is stored until the store has taken the `Append`; a batch whose
append loses is dropped, and the decision is made again on what is then read.
"""

from dataclasses import dataclass, field
from uuid import UUID

from abeyance.crypto.sealing import RunKey
from abeyance.crypto.signing import Signer
from abeyance.errors import ConflictError
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.events import Event
from abeyance.journal.run import ENDED, RowChanges, RunState, begin, evolve
from abeyance.journal.store import Append, ContentRow, Control, EventRow, LinkRow, ReplyRow, WaitRow
from abeyance.journal.vault import Content, Vault
from abeyance.world import World, to_micros


@dataclass(frozen=True, slots=True)
class Desk:
    """What writing events takes: the codec, the vault, the deployment's signer and its clock.

    `public_keys` are those that events in the journal may be signed by, by kid: the signer's own, those of
    before a rotation, and those that other processes sign with by now.
    """

    codec: EventCodec
    vault: Vault
    signer: Signer
    world: World
    public_keys: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The signer's own key is always among them."""
        self.public_keys[self.signer.kid] = self.signer.public_key


@dataclass(frozen=True, slots=True)
class Lease:
    """Who executes a run, and until when (microseconds). The id is random and compared for equality."""

    id: UUID
    until: int


def due_of(status: str, lease: Lease | None, *, now: int, deadline: int) -> int | None:
    """When a run must be looked at next. The only place that decides it: a test lists its callers."""
    if status in ENDED:
        return None
    if lease is not None:
        return lease.until
    return deadline if status == "suspended" else now


class Batch:
    """Events for the stream of one run, after `state` (`None`: it begins). `reply` goes in with them: the
    idempotency key of the request that they are the effect of. `if_active`: they are stored only while the
    run's tenant is active.
    """

    def __init__(self, desk: Desk, key: RunKey, run_id: UUID, state: RunState | None) -> None:
        self._desk = desk
        self._key = key
        self._run_id = run_id
        self._base = 0 if state is None else state.version
        self._state = state
        self._events: list[EventRow] = []
        self._contents: list[ContentRow] = []
        self._waits: dict[int, WaitRow] = {}
        self._links: list[LinkRow] = []
        self._dead_links: list[bytes] = []
        self.reply: ReplyRow | None = None
        self.if_active = False
        self.now = desk.world.now()

    @property
    def state(self) -> RunState:
        """The run after what was added so far."""
        if self._state is None:
            raise ConflictError("a batch for a new run is empty")
        return self._state

    @property
    def empty(self) -> bool:
        """Whether nothing was added."""
        return not self._events

    def commit(self, canonical: bytes) -> Content:
        """Commit to a content of this run."""
        return self._desk.vault.commit(canonical)

    def add(self, event: Event, content: Content | None = None) -> Recorded:
        """Sign `event` as the next of the stream, with its content. `at` never goes backwards."""
        state, codec = self._state, self._desk.codec
        if state is None:
            row, recorded = codec.seal(
                event, stream=self._run_id, version=1, prev=None, at=self.now, signer=self._desk.signer
            )
            self._state = begin(recorded)
        else:
            row, recorded = codec.seal(
                event,
                stream=self._run_id,
                version=state.version + 1,
                prev=state.head,
                at=max(self.now, state.at),
                signer=self._desk.signer,
            )
            self._state, changes = evolve(state, recorded)
            self._waits.update((wait.opened, wait) for wait in changes.waits)
            self._note_links(changes)
        self._events.append(row)
        if content is not None:
            sealed = self._desk.vault.seal(content, self._key, run_id=self._run_id, version=recorded.version)
            self._contents.append(sealed)
        return recorded

    def _note_links(self, changes: RowChanges) -> None:
        """Links that die in the batch that made them are never stored."""
        mine = {link.digest for link in self._links}
        self._links = [link for link in self._links if link.digest not in changes.dead_links]
        self._links += changes.links
        self._dead_links += (digest for digest in changes.dead_links if digest not in mine)

    def append(
        self, *, seen: Control | None, lease: Lease | None, definition: bytes, look_again: int | None = None
    ) -> Append:
        """The append: it wins if the control row is still as `seen`. `lease` is who holds the run after it.

        `look_again` (microseconds) is an earlier moment than the nearest deadline to look at a run that
        waits.
        """
        state, now = self.state, to_micros(self.now)
        deadline = state.next_deadline() if look_again is None else min(look_again, state.next_deadline())
        started = state.started
        control = Control(
            run_id=self._run_id,
            version=state.version,
            head=state.head,
            status=state.status,
            due=due_of(state.status, lease, now=now, deadline=deadline),
            lease_id=None if lease is None else lease.id,
            lease_until=None if lease is None else lease.until,
            definition=definition,
            key_id=started.key_id,
            key_state="live",
            workspace=started.workspace,
            project=started.project,
            created=to_micros(state.created_at),
            updated=to_micros(state.at),
        )
        return Append(
            expected_version=self._base,
            expected_lease=None if seen is None else seen.lease_id,
            control=control,
            events=tuple(self._events),
            contents=tuple(self._contents),
            waits=tuple(self._waits.values()),
            links=tuple(self._links),
            dead_links=tuple(self._dead_links),
            reply=self.reply,
            if_active=self.if_active,
        )
