"""A turn: one decision about one run, from what happened to everything that follows from it.

`Turn.add` signs an event into the batch and feeds it to the run's driver at once, so the program advances on
events in version order and on nothing else. If the append of the batch loses, the driver has seen events that
never were: session and turn are dropped, the run is loaded again and the decision is made again. No effect of
the program has happened by then, since effects start only after the append.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from abeyance.crypto.sealing import RunKey
from abeyance.engine.definitions import Definition
from abeyance.engine.driver import Driver, program_of
from abeyance.engine.links import Link
from abeyance.engine.operations import CallRequest, StepRequest
from abeyance.engine.tool_context import ToolContext
from abeyance.errors import ContentErasedError, HistoryDamagedError
from abeyance.journal.batch import Batch, Desk, Lease
from abeyance.journal.envelope import Recorded
from abeyance.journal.events import ContentRef, Event, content_ref
from abeyance.journal.run import RunState, begin, evolve
from abeyance.journal.store import Control, StoredRun
from abeyance.journal.vault import Content
from abeyance.world import to_micros

MAX_RUNS_OF_A_CALL = 5
_BASIS_BYTES = 16 * 1024
_EVENTS_BETWEEN_YIELDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something to do in the world once the turn is on disk: run a tool's handler, or a script's own
    function.

    `link` is set for a call that may pause. `recorded`: its start is in the journal already.
    """

    op: str
    request: CallRequest | StepRequest
    attempt: int = 1
    ordinal: int = 1
    key: UUID | None = None
    wait: str | None = None
    link: Link | None = None
    recorded: bool = True


@dataclass(slots=True)
class Contents:
    """The contents of one run: known plain bytes, and sealed ones that are opened when they are asked for."""

    desk: Desk
    key: RunKey
    run_id: UUID
    plain: dict[int, bytes] = field(default_factory=dict)
    sealed: dict[int, tuple[bytes, ContentRef]] = field(default_factory=dict)

    def size_bytes(self) -> int:
        """About how much memory a run takes while it is held: its contents, and a basis."""
        sealed = sum(len(blob) for blob, _ in self.sealed.values())
        return _BASIS_BYTES + sealed + sum(map(len, self.plain.values()))

    def __call__(self, version: int) -> bytes:
        """The canonical bytes of the content of the event at `version`."""
        known = self.plain.get(version)
        if known is not None:
            return known
        if version not in self.sealed:
            raise ContentErasedError(version)
        blob, ref = self.sealed[version]
        return self.desk.vault.open(blob, ref, self.key, run_id=self.run_id, version=version).canonical


def digest_args(key: RunKey) -> Callable[[bytes], str]:
    """The keyed digest of arguments: 16 bytes of HMAC-SHA256 in hex. It dies with the run's key."""
    return lambda message: key.keyed_digest(b"abeyance/args/v1", message)[:16].hex()


def call_key(run_id: UUID, op: str, tool_id: str) -> UUID:
    """The idempotency key of a call: UUIDv5 over run, operation and tool; the same in re-runs and retries."""
    return uuid5(run_id, f"{op}\n{tool_id}")


def digest16(definition: Definition) -> bytes:
    """The first 16 bytes of a definition's digest, as `run_control` holds it."""
    return bytes.fromhex(definition.digest)[:16]


class Session:
    """A run as this process holds it: state, driver, contents, and the control row as last seen.

    A session is a cache. Whatever it believes, the append's compare-and-swap decides.
    """

    def __init__(self, desk: Desk, key: RunKey, run_id: UUID, definition: Definition) -> None:
        self.desk = desk
        self.key = key
        self.run_id = run_id
        self.definition = definition
        self.contents = Contents(desk, key, run_id)
        self.driver = Driver(program_of(definition), digest_args=digest_args(key), content=self.contents)
        self.state: RunState | None = None
        self.seen: Control | None = None
        self.lease: Lease | None = None
        self.running: dict[str, ToolContext | None] = {}
        self.opened: dict[str, list[Recorded]] = {}
        self.ending: Recorded | None = None

    def load(self, stored: StoredRun) -> Iterator[None]:
        """Take a stored history: check the chain and the newest signature, which together cover all of it,
        rebuild the state, replay the program. Yields now and then, so that a long history doesn't hold up
        the loop.

        Raises `HistoryDamagedError`, `UnknownEventError`, and `DivergenceError` when the code doesn't fit.
        """
        self.seen = stored.control
        recorded, codec = [], self.desk.codec
        keys = self.desk.public_keys
        for number, row in enumerate(stored.events, 1):
            newest = number == len(stored.events)
            recorded.append(codec.verify(row, keys) if newest else codec.open(row))
            self._take(recorded[-1], stored.contents.get(row.version))
            if number % _EVENTS_BETWEEN_YIELDS == 0:
                yield
        state = self.state
        if state is None or (state.version, state.head) != (stored.control.version, stored.control.head):
            raise HistoryDamagedError("the control row and the newest event differ", where=str(self.run_id))
        for number, each in enumerate(recorded, 1):
            self.driver.feed(each.version, each.event)
            if number % _EVENTS_BETWEEN_YIELDS == 0:
                yield

    def _take(self, recorded: Recorded, blob: bytes | None) -> None:
        self.state = begin(recorded) if self.state is None else evolve(self.state, recorded)[0]
        ref = content_ref(recorded.event)
        if ref is not None and blob is not None:
            self.contents.sealed[recorded.version] = (blob, ref)
        self.note(recorded)

    def note(self, recorded: Recorded) -> None:
        """Keep the events that say what the run waits for, by wait; forget those of closed waits."""
        state = self.state
        if state is None:
            return
        if state.ended:
            self.ending = recorded
        for key, wait in state.waits.items():
            if recorded.version in (wait.row.opened, wait.row.paused):
                self.opened.setdefault(key, []).append(recorded)
        if len(self.opened) > len(state.waits):
            self.opened = {key: events for key, events in self.opened.items() if key in state.waits}

    def close(self) -> None:
        """Let the program go; its coroutine is closed on this thread."""
        self.driver.close()


class Turn:
    """The batch of one decision about a session's run."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.desk = session.desk
        self.batch = Batch(session.desk, session.key, session.run_id, session.state)
        self.effects: list[Effect] = []
        self.recorded: list[Recorded] = []

    @property
    def state(self) -> RunState:
        """The run after what was added so far."""
        return self.batch.state

    @property
    def now(self) -> int:
        """The turn's time in microseconds. Deadlines are judged by it, unclamped."""
        return to_micros(self.batch.now)

    def commit(self, canonical: bytes) -> Content:
        """Commit to a content of this run."""
        return self.desk.vault.commit(canonical)

    def add(self, event: Event, content: Content | None = None) -> Recorded:
        """Add an event to the batch and advance the program on it."""
        recorded = self.batch.add(event, content)
        session = self.session
        session.state = self.batch.state
        if content is not None:
            session.contents.plain[recorded.version] = content.canonical
        session.note(recorded)
        self.recorded.append(recorded)
        session.driver.feed(recorded.version, event)
        return recorded
