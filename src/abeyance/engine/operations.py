"""What a running program asks for: operations, as the driver hands them to the executor.

Every operation has an identity `op`, its place in the program: `3`, or `3.b2.1` for the first operation of
branch 2 of race or gather 3; in a flow the step's id. `line` is the code's line as `module:number`.
`args` is the keyed digest of the operation's kind, name and canonical arguments (32 hex digits).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from abeyance.engine.definitions import ONCE, Retry, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """Call a tool with this input (canonical JSON). `node` is the flow step's id, in a script `op`."""

    op: str
    node: str
    tool: Tool
    input: bytes
    args: str
    line: str
    retry: Retry = ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Run a function of the script's own and record its result. `run` takes nothing; it may be async."""

    op: str
    name: str
    args: str
    line: str
    run: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepRequest:
    """Go on after `duration`, counted from when the timer is recorded."""

    op: str
    args: str
    line: str
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRequest:
    """Record the time, a new UUID or a random number."""

    op: str
    kind: Literal["now", "uuid", "random"]
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideRequest:
    """Branch `winner` (from 1) ended race or gather `op` before the others ended: record that."""

    op: str
    winner: int
    line: str


Request = CallRequest | StepRequest | SleepRequest | ValueRequest | DecideRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The program ended with this output (canonical JSON)."""

    output: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The program ended with an error: a stable code, and a detail that may hold a user's words."""

    code: str
    detail: str
    line: str
    node: str | None = None


Outcome = Returned | Raised
