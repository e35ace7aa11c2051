"""Histories of runs as the engine could write them, made move by move: each is legal in the run's state.

Everything is fixed by the moves: the signer, the run's key, the clock, ids and randomness. `Author` writes
one run in batches; `Written` holds what a store would hold after their appends.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID, uuid5

from hypothesis import strategies as st

from abeyance.crypto.sealing import RunKey
from abeyance.crypto.signing import FileSigner, encode_public_key
from abeyance.errors import ContentErasedError
from abeyance.journal import events as e
from abeyance.journal.batch import Batch, Desk, Lease
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.run import ENDED, RunState, losing_branches, token_id
from abeyance.journal.store import (
    Append,
    Control,
    EventRow,
    LinkRow,
    OpenWait,
    RunRecord,
    StoredRun,
    WaitRow,
)
from abeyance.journal.vault import Content, Vault

ORIGIN = "localhost/tests"
RUN_ID = UUID(int=7)
ROOT = FileSigner.from_seed(b"\x01" * 32)
SIGNER = FileSigner.from_seed(b"\x02" * 32)
KEY = RunKey(1, b"\x03" * 32)
START = datetime.fromisoformat("2026-12-01T08:00:00+00:00")
DIGEST = hashlib.sha256(b"definition").hexdigest()
TOOL = e.ToolRef(id="shop.request-pickup", schema_digest=DIGEST, version="0.1.0")
LEASE = Lease(UUID(int=1), 1_900_000_000_000_000)


class FixedWorld:
    """A clock that is set by hand, and bytes that are the same in every run of a test."""

    def __init__(self, seed: bytes = b"") -> None:
        self.time = START
        self._seed = seed
        self._drawn = 0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - START).total_seconds()

    def random_bytes(self, count: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_256(self._seed + self._drawn.to_bytes(8)).digest(count)


def fixed_desk(seed: bytes = b"") -> Desk:
    """A deployment's desk with the fixed keys."""
    world = FixedWorld(seed)
    return Desk(EventCodec(ORIGIN), Vault(ORIGIN, world), SIGNER, world)


def deployment_rows() -> list[EventRow]:
    """The deployment's own stream: the log is opened, the events' key is certified."""
    codec, rows, prev = EventCodec(ORIGIN), list[EventRow](), None
    certified = e.KeyAdded(key=encode_public_key(SIGNER.public_key), kid=SIGNER.kid.hex(), use="events")
    for event in (e.LogOpened(origin=ORIGIN, root=encode_public_key(ROOT.public_key)), certified):
        row, recorded = codec.seal(
            event,
            stream=e.DEPLOYMENT_STREAM,
            version=len(rows) + 1,
            prev=prev,
            at=START,
            signer=ROOT,
        )
        rows.append(row)
        prev = recorded.digest
    return rows


@dataclass
class Written:
    """What a store holds of one run after some appends."""

    control: Control | None = None
    events: list[EventRow] = field(default_factory=list)
    contents: dict[int, bytes] = field(default_factory=dict)
    waits: dict[int, WaitRow] = field(default_factory=dict)
    links: dict[bytes, LinkRow] = field(default_factory=dict)

    def take(self, append: Append) -> None:
        self.control = append.control
        self.events += append.events
        self.contents |= {row.version: row.blob for row in append.contents}
        self.waits |= {row.opened: row for row in append.waits}
        for digest in append.dead_links:
            del self.links[digest]
        self.links |= {row.digest: row for row in append.links}

    @property
    def stored(self) -> StoredRun:
        assert self.control is not None
        return StoredRun(self.control, self.events, self.contents)

    @property
    def record(self) -> RunRecord:
        assert self.control is not None
        waits = [
            OpenWait(row, self.events[row.opened - 1], self.events[row.paused - 1] if row.paused else None)
            for row in self.waits.values()
            if row.closed is None
        ]
        newest = self.events[-1]
        return RunRecord(self.control, self.events[0], newest, self.contents.get(newest.version), waits)


Move = Callable[[], None]
Moves = Iterator[tuple[str, Move]]


class Author:
    """Writes the history of one run. `opened` and `ending` are what an executor keeps of it in memory."""

    def __init__(self, run_id: UUID, desk: Desk, labels: dict[str, str] | None = None) -> None:
        self.run_id = run_id
        self.desk = desk
        self.state: RunState | None = None
        self.written = Written()
        self.appends: list[Append] = []
        self.opened: dict[str, list[Recorded]] = {}
        self.ending: Recorded | None = None
        self._labels = labels
        self._plain: dict[int, bytes] = {}
        self._batch = Batch(desk, KEY, run_id, None)
        self._ops = 0
        self._begin()

    def content(self, version: int) -> bytes:
        """The content of the event at `version`, as an executor has it in memory."""
        if version not in self._plain:
            raise ContentErasedError(version)
        return self._plain[version]

    def cut(self, lease: Lease | None = None) -> None:
        """End the batch and write it."""
        if self._batch.empty:
            return
        append = self._batch.append(
            seen=self.written.control, lease=lease, definition=bytes.fromhex(DIGEST)[:16]
        )
        self.appends.append(append)
        self.written.take(append)
        world = self.desk.world
        assert isinstance(world, FixedWorld)
        world.time += timedelta(milliseconds=7)
        self._batch = Batch(self.desk, KEY, self.run_id, self.state)

    def moves(self) -> dict[str, Move]:
        """Everything that may happen next, by name, always in the same order."""
        if self.now.status in ENDED:
            return {}
        return dict([*self._openings(), *self._of_calls(), *self._of_waits(), *self._endings()])

    def play(self, *names: str) -> "Author":
        """Make these moves, and write them in one batch."""
        for name in names:
            self.moves()[name]()
        self.cut()
        return self

    @property
    def now(self) -> RunState:
        assert self.state is not None
        return self.state

    def _commit(self, text: bytes) -> Content:
        return self.desk.vault.commit(text)

    def _add(self, event: e.Event, content: Content | None = None) -> Recorded:
        recorded = self._batch.add(event, content)
        self.state = self._batch.state
        if content is not None:
            self._plain[recorded.version] = content.canonical
        if self.state.ended:
            self.ending = recorded
        for key, wait in self.state.waits.items():
            if recorded.version in (wait.row.opened, wait.row.paused):
                self.opened.setdefault(key, []).append(recorded)
        return recorded

    def _begin(self) -> None:
        content = self._commit(b'{"orderId":"ord_1001"}')
        ref = e.DefinitionRef(digest=DIGEST, id="shop.ship-order", kind="flow", version="0.1.0")
        event = e.Started(
            definition=ref, expires_at=self.desk.world.now() + timedelta(days=30), input=content.ref,
            key_id=KEY.key_id, labels=self._labels, project="default", workspace="default",
        )  # fmt: skip
        self._add(event, content)

    def _next_op(self) -> str:
        self._ops += 1
        return str(self._ops)

    def _openings(self) -> Moves:
        if self._ops < 6:
            yield "call", lambda: self._start_call(self._next_op(), pauses=True)
            yield "plain call", lambda: self._start_call(self._next_op(), pauses=False)
            yield "branches", self._open_branches
            yield "timer", self._set_timer
            yield "step", self._record_step
        yield "value", self._record_value
        running = any(call.phase == "running" for call in self.now.calls.values())
        if self.now.waits and not running and self.now.status != "suspended":
            yield "suspend", self._suspend

    def _start_call(self, op: str, *, pauses: bool, attempt: int = 1) -> None:
        key, content = uuid5(self.run_id, op), self._commit(b'{"orderId":"ord_1001"}')
        link = self.desk.world.random_bytes(32).hex() if pauses else None
        event = e.CallStarted(
            args="00" * 16, attempt=attempt, input=content.ref, key=key, link=link, node=op, op=op,
            tool=TOOL, wait=token_id(key, attempt) if pauses else None,
        )  # fmt: skip
        self._add(event, content)

    def _open_branches(self) -> None:
        op = self._next_op()
        for branch in (1, 2):
            self._start_call(f"{op}.b{branch}.1", pauses=branch == 1)

    def _set_timer(self) -> None:
        due_at = self.desk.world.now() + timedelta(hours=self._ops + 1)
        self._add(e.TimerSet(args="11" * 16, due_at=due_at, op=self._next_op()))

    def _record_step(self) -> None:
        content = self._commit(b"[1,2.50]")
        self._add(
            e.StepCompleted(args="22" * 16, name="count", op=self._next_op(), output=content.ref), content
        )

    def _record_value(self) -> None:
        self._add(e.ValueRecorded(kind="random", op=f"v{self.now.version}", value="0123456789abcdef"))

    def _suspend(self) -> None:
        listed = "\n".join(sorted(self.now.waits))
        tokens = sum(wait.row.call_key is not None for wait in self.now.waits.values())
        digest = hashlib.sha256(listed.encode()).hexdigest()
        other = len(self.now.waits) - tokens
        self._add(e.Suspended(approvals=0, open_waits=digest, other=other, signals=0, tokens=tokens))

    def _of_calls(self) -> Moves:
        for op, call in self.now.calls.items():
            if call.phase == "retrying" and f"retry {op}" in self.now.waits:
                yield (
                    f"retry {op}",
                    partial(self._start_call, op, pauses=call.attempt == 1, attempt=call.attempt + 1),
                )
            if call.phase != "running":
                continue
            yield f"complete {op}", partial(self._complete, op)
            yield f"fail {op}", partial(self._fail, op, final=True, attempt=call.attempt)
            if op in self.now.abandoned:
                continue
            if call.attempt < 3:
                yield (
                    f"retry later {op}",
                    partial(self._fail, op, final=False, attempt=call.attempt),
                )
            if call.ordinal < 5:
                yield f"rerun {op}", partial(self._run_again, op, call.ordinal + 1)
            if call.wait is not None:
                yield f"pause {op}", partial(self._pause, op)

    def _complete(self, op: str) -> None:
        self._discard(op, "answered-at-once")
        output = self._commit(b'{"pickupId":"p-1"}')
        self._add(e.CallCompleted(op=op, output=output.ref), output)

    def _fail(self, op: str, *, final: bool, attempt: int) -> None:
        self._discard(op, "call-failed" if final else "step-retried")
        detail = self._commit(b'"the carrier is closed"')
        self._add(
            e.CallFailed(attempt=attempt, code="handler-error", detail=detail.ref, final=final, op=op), detail
        )
        if not final:
            due_at = self.desk.world.now() + timedelta(minutes=attempt)
            self._add(e.RetryScheduled(attempt=attempt + 1, due_at=due_at, op=op))

    def _run_again(self, op: str, ordinal: int) -> None:
        link = self.desk.world.random_bytes(32).hex() if self.now.calls[op].wait else None
        self._add(e.Rerun(cause="worker-lost", link=link, op=op, ordinal=ordinal))

    def _pause(self, op: str) -> None:
        wait = self.now.calls[op].wait
        assert wait is not None
        held = self.now.waits[wait].held
        due = self.desk.world.now() + timedelta(hours=2)
        self._add(e.CallPaused(line="shop:31", name="the confirmation", op=op, times_out_at=due, wait=wait))
        if held is not None:
            self._add(e.WaitTokenCompleted(answer=held, by="link", held=True, wait=wait))

    def _discard(self, op: str, reason: str) -> None:
        for key, wait in list(self.now.waits.items()):
            if wait.op == op and wait.held is not None:
                self._add(
                    e.WaitTokenDiscarded.model_validate({"answer": wait.held, "reason": reason, "wait": key})
                )

    def _of_waits(self) -> Moves:
        for key, wait in self.now.waits.items():
            if key.startswith("timer "):
                yield f"fire {wait.op}", partial(self._fire, wait.op)
            elif key.startswith("pause:") and wait.row.state == "waiting":
                yield f"answer {wait.op}", partial(self._answer, key)
                yield f"time out {wait.op}", partial(self._time_out, key, wait.op)
            elif key.startswith("pause:") and wait.row.state == "open":
                yield f"hold {wait.op}", partial(self._hold, key)
            if key.startswith("pause:") and wait.held is None:
                yield f"rotate {wait.op}", partial(self._rotate, key)
                yield f"revoke {wait.op}", partial(self._revoke, key)
                if wait.row.state == "waiting":
                    yield f"extend {wait.op}", partial(self._extend, key)
        for op in {key.partition(".b")[0] for key in self.now.calls if ".b" in key}:
            yield f"decide {op}", partial(self._decide, op)

    def _rotate(self, key: str) -> None:
        link = self.desk.world.random_bytes(32).hex()
        self._add(e.LinkRotated(actor="operator", link=link, wait=key))

    def _revoke(self, key: str) -> None:
        self._add(e.LinkRevoked(wait=key))

    def _extend(self, key: str) -> None:
        until = self.desk.world.now() + timedelta(hours=self.now.version)
        self._add(e.WaitTokenExtended(actor="operator", times_out_at=until, wait=key))

    def _fire(self, op: str) -> None:
        self._add(e.TimerFired(op=op))

    def _answer(self, key: str) -> None:
        content = self._commit(b'{"pickupId":"p-2"}')
        self._add(e.WaitTokenCompleted(answer=content.ref, by="link", wait=key), content)

    def _hold(self, key: str) -> None:
        content = self._commit(b'{"pickupId":"p-3"}')
        self._add(e.WaitTokenAnswered(answer=content.ref, by="link", wait=key), content)

    def _time_out(self, key: str, op: str) -> None:
        self._add(e.WaitTokenTimedOut(wait=key))
        self._fail(op, final=True, attempt=self.now.calls[op].attempt)

    def _decide(self, op: str) -> None:
        lost = losing_branches(op, 2, {wait.op for wait in self.now.waits.values()})
        for each in sorted(lost):
            self._discard(each, "branch-cancelled")
        self._add(e.RaceDecided(closed=len(lost), op=op, winner=2))

    def _endings(self) -> Moves:
        if self.now.mismatch is None:
            yield "mismatch", self._mismatch
        else:
            yield "matched", self._match
        if not self.now.crash_looping:
            yield "crash-loop", self._crash_loop
        else:
            yield "retried", self._retry
        yield "completed", lambda: self._end("run-ended", self._completed)
        yield "failed", lambda: self._end("run-ended", self._failed)
        yield "cancelled", lambda: self._end("run-cancelled", lambda: (e.Cancelled(actor="operator"), None))

    def _crash_loop(self) -> None:
        self._add(e.CrashLoop(code=DIGEST, lost=5))

    def _retry(self) -> None:
        self._add(e.CrashLoopRetried(actor="operator"))

    def _match(self) -> None:
        self._add(e.CodeMatched(code=DIGEST))

    def _mismatch(self) -> None:
        self._add(
            e.CodeMismatch(code=DIGEST, line="shop:40", op="2", recorded="call shop.a", requested="sleep")
        )

    def _completed(self) -> tuple[e.Event, Content | None]:
        output = self._commit(b'{"shipped":true}')
        return e.Completed(output=output.ref), output

    def _failed(self) -> tuple[e.Event, Content | None]:
        detail = self._commit(b'"no carrier"')
        return e.Failed(code="handler-error", detail=detail.ref, node="1"), detail

    def _end(self, reason: str, event: Callable[[], tuple[e.Event, Content | None]]) -> None:
        for wait in list(self.now.waits.values()):
            self._discard(wait.op, reason)
        self._add(*event())


def write(
    moves: list[int], run_id: UUID = RUN_ID, *, cut_every: int = 1, labels: dict[str, str] | None = None
) -> Author:
    """The run that these moves make; each number picks one of what may happen next."""
    author = Author(run_id, fixed_desk(run_id.bytes), labels)
    for place, move in enumerate(moves):
        if place % cut_every == 0:
            author.cut(LEASE if place % 2 else None)
        choices = list(author.moves().values())
        if not choices:
            break
        choices[move % len(choices)]()
    author.cut()
    return author


def begin(run_id: UUID = RUN_ID, labels: dict[str, str] | None = None) -> Author:
    """A run with its first event written."""
    author = Author(run_id, fixed_desk(run_id.bytes), labels)
    author.cut()
    return author


CALL = (0,)
"""The first move of a run that opens a wait with a link."""


def move_lists(most: int = 25) -> st.SearchStrategy[list[int]]:
    """Lists of moves; shrinks towards few and towards starting calls."""
    return st.lists(st.integers(min_value=0, max_value=40), max_size=most)


def authors(most: int = 25, *, first: tuple[int, ...] = ()) -> st.SearchStrategy[Author]:
    """Runs with random histories, after these first moves."""
    return st.builds(
        write,
        move_lists(most).map(lambda moves: [*first, *moves]),
        cut_every=st.integers(min_value=1, max_value=4),
        labels=st.just({"order": "1"}),
    )
