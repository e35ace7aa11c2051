"""Random programs, and random but possible histories of them.

A program is a block: a list of statements, as JSON. `interpret` makes a script of it; everything that it sees
goes into a trace, and into the arguments of what it asks for next, so that a wrong value shows. `Play` is an
executor that does one random possible thing after the other, late results of lost branches and foreign events
included.

`python -m tests.unit.engine.random_programs COUNT` prints the histories of COUNT programs: the same text in
every process, whatever its hash seed.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from random import Random
from typing import Any

from abeyance.engine.driver import Driver, program_of
from abeyance.engine.operations import (
    CallRequest,
    DecideRequest,
    Request,
    SleepRequest,
    StepRequest,
    ValueRequest,
)
from abeyance.errors import BranchCancelled, CallFailedError
from abeyance.journal import events as e
from tests.unit.engine.programs import AT, REF, Journal, call_started, script, step_completed, tool

Block = list[Any]
TOOLS = [tool("shop.pay"), tool("shop.ship")]


def block(rng: Random, depth: int = 3) -> Block:
    """A block: up to six statements outside, up to four inside."""
    return [statement(rng, depth) for _ in range(rng.randint(0, 4) if depth < 3 else rng.randint(2, 6))]


def statement(rng: Random, depth: int) -> list[Any]:
    """A statement; one that holds blocks only while `depth` lasts."""
    simple = ["call", "call", "step", "step", "sleep", "now", "uuid", "random", "raise"]
    kind = rng.choice(simple[:-1] if depth == 3 else simple)
    if depth and rng.random() < 0.45:
        kind = rng.choice(["gather", "race", "race", "try_", "clean", "clean"])
    if kind in ("gather", "race"):
        parts = [block(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        return [kind, rng.random() < 0.3, *parts]
    if kind in ("try_", "clean"):
        return [kind, rng.random() < 0.5, block(rng, depth - 1), block(rng, 0)]
    return [kind, rng.randint(0, 1), rng.randint(0, 3)]


class Interpreter:
    """Runs blocks. What they see is added to `trace`."""

    def __init__(self, ctx: Any, trace: list[Any]) -> None:
        self.ctx = ctx
        self.trace = trace

    async def run(self, statements: Block, seen: str) -> str:
        """Run a block that has `seen` what this digest is of."""
        for each in statements:
            value = await self.perform(each, seen)
            self.trace.append([each[0], str(value)])
            seen = hashlib.sha256(f"{seen} {value}".encode()).hexdigest()[:8]
        return seen

    async def perform(self, each: list[Any], seen: str) -> Any:
        """Run one statement."""
        ctx, kind = self.ctx, each[0]
        if kind in ("now", "uuid", "random"):
            return await getattr(ctx, kind)()
        if kind in ("gather", "race", "try_", "clean"):
            return await getattr(self, kind)(seen, *each[1:])
        _, which, number = each
        if kind == "call":
            return await ctx.call(TOOLS[which], number=number, seen=seen)
        if kind == "step":
            return await ctx.step(f"s{which}", print, number, seen, {f"{seen}{n}" for n in range(4)})
        if kind == "sleep":
            return await ctx.sleep(number)
        raise ValueError(number)

    async def gather(self, seen: str, return_exceptions: bool, *parts: Block) -> Any:
        """All parts."""
        return await self.ctx.gather(
            *(self.run(part, seen) for part in parts), return_exceptions=return_exceptions
        )

    async def race(self, seen: str, _: bool, *parts: Block) -> Any:
        """The first part."""
        return await self.ctx.race(*(self.run(part, seen) for part in parts))

    async def try_(self, seen: str, _: bool, inner: Block, otherwise: Block) -> Any:
        """One block, or another if it fails."""
        try:
            return await self.run(inner, seen)
        except (CallFailedError, ValueError) as error:
            return await self.run(otherwise, f"{seen}{error}")

    async def clean(self, seen: str, goes_on: bool, inner: Block, cleanup: Block) -> Any:
        """A block that does something when it loses, and then gives up or not."""
        try:
            return await self.run(inner, seen)
        except BranchCancelled:
            self.trace.append(["cancelled", seen])
            await self.run(cleanup, seen)
            if not goes_on:
                raise


def interpret(program: Block, trace: list[Any]) -> Callable[[Any, Any], Any]:
    """The script of a block. What it sees is added to `trace`."""

    async def main(ctx: Any, value: Any) -> Any:
        return await Interpreter(ctx, trace).run(program, str(value))

    return main


def plain(request: Request) -> tuple[Any, ...]:
    """What of a request can be compared between processes."""
    return (
        type(request).__name__,
        request.op,
        request.line,
        getattr(request, "args", None),
        getattr(request, "winner", None),
        getattr(request, "input", None),
    )


def snapshot(driver: Driver, trace: list[Any]) -> tuple[Any, ...]:
    """All that can be seen of a driver and its program now."""
    return tuple(map(plain, driver.wanted())), driver.outcome, len(trace), trace[-1] if trace else None


class Play:
    """A program with a history that grows by one random possible event at a time."""

    def __init__(self, program: Block, rng: Random) -> None:
        self.rng = rng
        self.trace: list[Any] = []
        self.calls: dict[str, tuple[CallRequest, int, bool]] = {}
        self.timers: set[str] = set()
        self.effects: dict[str, StepRequest] = {}
        self.answered: set[str] = set()
        self.journal = Journal(script(interpret(program, self.trace)), 0)
        self.snapshots = [self.now()]

    def now(self) -> tuple[Any, ...]:
        """See `snapshot`."""
        return snapshot(self.journal.driver, self.trace)

    def add(self, event: e.Event) -> None:
        """Store an event with a content that no other event has."""
        self.journal.add(event, f"value {len(self.journal.events)}")
        self.snapshots.append(self.now())

    def step(self) -> bool:
        """Do one thing; whether there was one to do."""
        possible = [*self.wanted(), *self.open()]
        if not possible:
            return False
        if self.rng.random() < 0.1:
            possible = [self.foreign]
        self.rng.choice(possible)()
        return True

    def wanted(self) -> list[Callable[[], None]]:
        """Ways to open what is wanted."""
        return [lambda asked=asked: self.begin(asked) for asked in self.journal.driver.wanted()]  # type: ignore[misc]

    def begin(self, request: Request) -> None:
        """Open an operation, or begin an effect whose record follows later."""
        match request:
            case CallRequest():
                self.start(request, 1)
            case StepRequest():
                self.effects.setdefault(request.op, request)
            case SleepRequest():
                self.timers.add(request.op)
                self.add(e.TimerSet(args=request.args, due_at=AT, op=request.op))
            case ValueRequest():
                self.add(e.ValueRecorded(kind=request.kind, op=request.op, value=self.value(request.kind)))
            case DecideRequest():
                self.add(e.RaceDecided(closed=0, op=request.op, winner=request.winner))

    def value(self, kind: str) -> str:
        """A recorded value that no other event has."""
        number = len(self.journal.events)
        if kind == "now":
            return f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}.000000Z"
        return f"00000000-0000-7000-8000-{number:012}" if kind == "uuid" else f"{number << 40:016x}"

    def start(self, request: CallRequest, attempt: int) -> None:
        """Start a call's attempt, with a wait or without."""
        wait = f"{request.op}:{attempt}" if self.rng.random() < 0.5 else None
        self.calls[request.op] = (request, attempt, True)
        self.add(call_started(request, attempt=attempt, wait=wait))

    def open(self) -> list[Callable[[], None]]:
        """Ways to go on with what was begun."""
        live = self.journal.driver
        self.timers = {op for op in self.timers if not live.is_abandoned(op)}
        return [
            *(lambda op=op: self.end_call(op) for op in self.calls),
            *(lambda op=op: self.end_timer(op) for op in sorted(self.timers)),
            *(lambda op=op: self.end_step(op) for op in self.effects),
        ]

    def end_timer(self, op: str) -> None:
        """Fire a timer."""
        self.timers.remove(op)
        self.add(e.TimerFired(op=op))

    def end_step(self, op: str) -> None:
        """Record the end of a step's effect, which began some events ago."""
        request = self.effects.pop(op)
        if self.rng.random() < 0.1:
            self.add(e.StepFailed(args=request.args, detail=REF, name=request.name, op=op))
        else:
            self.add(step_completed(request))

    def end_call(self, op: str) -> None:
        """Complete, answer, fail or retry a call."""
        request, attempt, running = self.calls[op]
        abandoned = self.journal.driver.is_abandoned(op)
        if not running:
            if abandoned:
                del self.calls[op]
            else:
                self.start(request, attempt + 1)
            return
        started = self.journal.driver.request(op)
        chance = self.rng.random()
        if chance < 0.1:
            self.calls[op] = (request, attempt, False)
            self.add(e.CallFailed(attempt=attempt, code="handler-error", detail=REF, final=False, op=op))
            return
        del self.calls[op]
        wait = self.wait_of(op)
        if chance < 0.2:
            self.add(e.CallFailed(attempt=attempt, code="handler-timeout", detail=REF, final=True, op=op))
        elif wait is None or started is None or chance < 0.6:
            self.add(e.CallCompleted(op=op, output=REF))
        elif chance < 0.8:
            self.add(e.WaitTokenAnswered(answer=REF, by="link", wait=wait))
            self.add(e.WaitTokenCompleted(answer=REF, by="link", held=True, wait=wait))
        else:
            self.add(e.WaitTokenCompleted(answer=REF, by="link", wait=wait))

    def wait_of(self, op: str) -> str | None:
        """The wait of a call's newest attempt."""
        starts = [
            each for _, each in self.journal.events if isinstance(each, e.CallStarted) and each.op == op
        ]
        return starts[-1].wait

    def foreign(self) -> None:
        """Record something that the program never sees."""
        self.add(
            self.rng.choice(
                [
                    e.Suspended(approvals=0, open_waits="0" * 64, other=0, signals=0, tokens=1),
                    e.Rerun(cause="worker-lost", op="1", ordinal=2),
                    e.RetryScheduled(attempt=2, due_at=AT, op="1"),
                    e.CodeMatched(code="0" * 64),
                    e.WaitTokenAnswered(answer=REF, by="link", wait="nobody's"),
                    e.WaitTokenTimedOut(wait="nobody's"),
                ]
            )
        )


def play(rng: Random, program: Block | None = None, limit: int = 150) -> tuple[Block, Play]:
    """A program and a history of it: to its end, or to a random version."""
    program = block(rng) if program is None else program
    game = Play(program, rng)
    for _ in range(rng.choice([5, 20, limit])):
        if not game.step():
            break
    return program, game


def replayed(program: Block, game: Play, until: int | None = None) -> tuple[Driver, list[Any], list[Any]]:
    """A new driver over the history, with the trace that it leaves and a snapshot after each event."""
    trace: list[Any] = []
    snapshots = []
    driver = game.journal.new_driver(program_of(script(interpret(program, trace))))
    for version, event in game.journal.events[:until]:
        driver.feed(version, event)
        snapshots.append(snapshot(driver, trace))
    return driver, trace, snapshots


def main(count: int) -> None:
    """Print the histories of `count` programs, and what their live and replayed drivers showed."""
    for seed in range(count):
        program, game = play(Random(seed))
        _, trace, snapshots = replayed(program, game)
        events = [event.model_dump_json() for _, event in game.journal.events]
        assert (trace, snapshots) == (game.trace, game.snapshots)
        print(json.dumps([events, trace]), snapshots[-1])


if __name__ == "__main__":
    main(int(sys.argv[1]))
