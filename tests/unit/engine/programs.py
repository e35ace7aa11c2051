"""Programs for tests of the driver, and a stand-in for the executor that keeps a history of them.

`Journal` does what the executor does, in the order that a test says: it opens what is wanted, stores results,
keeps contents by version. `replayed()` is a new driver, fed with the same history from the start.
"""

import hmac
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from abeyance.engine.definitions import ONCE, Flow, Retry, Script, Shape, Step, Tool
from abeyance.engine.driver import Driver, Program, program_of
from abeyance.engine.operations import (
    CallRequest,
    DecideRequest,
    Request,
    SleepRequest,
    StepRequest,
    ValueRequest,
)
from abeyance.engine.signatures import shape_of
from abeyance.journal import events as e
from abeyance.journal.canonical import encode

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REF = e.ContentRef(sha256="0" * 64, size=256)
KEY = UUID("00000000-0000-7000-8000-000000000001")


def shape(kind: Any) -> Shape:
    """The shape of a type."""
    return shape_of("test", kind, "value")


def tool(id: str, *, version: str = "1.0.0", takes: Any = Any, gives: Any = Any, **more: Any) -> Tool:
    """A tool whose handler nobody runs."""
    return Tool(
        id=id,
        version=version,
        description="",
        handler=lambda value: value,
        input=shape(takes),
        output=shape(gives),
        takes_context=False,
        is_async=False,
        **more,
    )


def script(function: Callable[..., Awaitable[Any]], *, takes: Any = Any, gives: Any = Any) -> Script:
    """A script of a function."""
    return Script(
        id="test.script",
        version="1.0.0",
        function=function,
        input=shape(takes),
        output=shape(gives),
        document=b"{}",
        digest="0" * 64,
    )


def flow(*steps: Step, takes: Any = Any, **more: Any) -> Flow:
    """A flow of steps."""
    return Flow(
        id="test.flow",
        version="1.0.0",
        input=shape(takes),
        steps=steps,
        document=b"{}",
        digest="0" * 64,
        **more,
    )


def step(id: str, calls: Tool, *needs: str, retry: Retry = ONCE, **more: Any) -> Step:
    """A step of a flow."""
    return Step(id=id, tool=calls, needs=needs, retry=retry, line=f"shop:{id}", **more)


def digest_args(message: bytes) -> str:
    """A keyed digest under a test's key."""
    return hmac.digest(b"run", message, "sha256")[:16].hex()


class Journal:
    """A history and the live driver that it feeds."""

    def __init__(self, definition: Flow | Script | Program, value: Any = None) -> None:
        self.program: Program = (
            program_of(definition) if isinstance(definition, Flow | Script) else definition
        )
        self.events: list[tuple[int, e.Event]] = []
        self.contents: dict[int, bytes] = {}
        self.read: list[int] = []
        self.driver = self.new_driver()
        self.attempts: dict[str, int] = {}
        self.add(started(), value)

    def new_driver(self, program: Program | None = None) -> Driver:
        """A driver of the program that reads this history's contents."""
        return Driver(program or self.program, digest_args=digest_args, content=self._content)

    def _content(self, version: int) -> bytes:
        self.read.append(version)
        return self.contents[version]

    def add(self, event: e.Event, value: Any = None, *, store: bool = True) -> int:
        """Store an event and its content, and feed it. Returns its version."""
        version = len(self.events) + 1
        self.events.append((version, event))
        if store:
            self.contents[version] = encode(value)
        self.driver.feed(version, event)
        return version

    def replayed(self, until: int | None = None, program: Program | None = None) -> Driver:
        """A new driver, fed with the history up to version `until`."""
        driver = self.new_driver(program)
        for version, event in self.events[:until]:
            driver.feed(version, event)
        return driver

    @property
    def wanted(self) -> list[str]:
        """The ids of what is wanted."""
        return [request.op for request in self.driver.wanted()]

    def __getitem__(self, op: str) -> Request:
        """The request of an operation that is wanted or open."""
        request = self.driver.request(op)
        if request is None:
            raise LookupError(f"{op} isn't asked for; wanted: {self.wanted}")
        return request

    def start_call(self, op: str, *, wait: str | None = None) -> int:
        """Open a call, or its next attempt."""
        request = self[op]
        assert isinstance(request, CallRequest)
        self.attempts[op] = self.attempts.get(op, 0) + 1
        return self.add(call_started(request, attempt=self.attempts[op], wait=wait), None)

    def complete(self, op: str, value: Any = None) -> int:
        """Open the operation if it isn't, and store its result, whatever kind it has."""
        request = self[op]
        match request:
            case CallRequest():
                if op in {asked.op for asked in self.driver.wanted()}:
                    self.start_call(op)
                return self.add(e.CallCompleted(op=op, output=REF), value)
            case StepRequest():
                return self.add(step_completed(request), value)
            case ValueRequest():
                return self.add(e.ValueRecorded(kind=request.kind, op=op, value=value))
            case SleepRequest():
                if op in {asked.op for asked in self.driver.wanted()}:
                    self.add(e.TimerSet(args=request.args, due_at=AT, op=op))
                return self.add(e.TimerFired(op=op))
            case DecideRequest():
                return self.add(e.RaceDecided(closed=0, op=op, winner=request.winner))

    def fail(self, op: str, code: str = "handler-error", *, detail: Any = "no", final: bool = True) -> int:
        """Fail a call, which is opened if it isn't, or a step."""
        request = self[op]
        if isinstance(request, StepRequest):
            return self.add(e.StepFailed(args=request.args, detail=REF, name=request.name, op=op), detail)
        if op in {asked.op for asked in self.driver.wanted()}:
            self.start_call(op)
        attempt = self.attempts[op]
        return self.add(e.CallFailed(attempt=attempt, code=code, detail=REF, final=final, op=op), detail)


def started() -> e.Started:
    """The first event of a run."""
    definition = e.DefinitionRef(digest="0" * 64, id="test.script", kind="script", version="1.0.0")
    return e.Started(
        definition=definition, expires_at=AT, input=REF, key_id=1, project="default", workspace="default"
    )


def call_started(request: CallRequest, *, attempt: int = 1, wait: str | None = None) -> e.CallStarted:
    """The event that opens a call."""
    called = e.ToolRef(
        id=request.tool.id, schema_digest=request.tool.output.digest, version=request.tool.version
    )
    return e.CallStarted(
        args=request.args,
        attempt=attempt,
        input=REF,
        key=KEY,
        node=request.node,
        op=request.op,
        tool=called,
        wait=wait,
    )


def step_completed(request: StepRequest) -> e.StepCompleted:
    """The event of a script's own step."""
    return e.StepCompleted(args=request.args, name=request.name, op=request.op, output=REF)


class Payment(BaseModel):
    """An input with a wire name."""

    amount: int
    order_id: str = "none"
