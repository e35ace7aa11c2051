"""The operations that a program awaits, and the gate that says when it may.

An operation is made by a method of the context and does nothing until it is awaited; then the driver gives it
its identity. What holds here:

1. Nothing in this file knows a coroutine or the driver, so a coroutine that waits is freed by the driver that
   drops it, at that moment, never by the garbage collector in somebody else's step.
2. An operation can be awaited only while the driver advances its program (the `Gate` is open). Once the
   driver has closed the program, awaiting raises `ProgramClosed`, a `BaseException`, and touches nothing.
3. Suspension is not an exception: the coroutine just isn't advanced.
"""

from collections.abc import Callable, Coroutine, Generator, Sequence
from datetime import timedelta
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from abeyance.engine.arguments import encode_arguments
from abeyance.engine.definitions import ONCE, Retry, Tool
from abeyance.engine.source import format_line
from abeyance.errors import InvalidOperationError

T = TypeVar("T")
Place = str | tuple[str, int]
"""A line, or the module and number to make it of."""
_REFUSALS_BEFORE_GIVING_UP = 100


class ProgramClosed(BaseException):
    """The program was suspended and let go; whatever it awaits now is refused and recorded nowhere."""


class Gate:
    """Whether the operations of one program may be awaited now. The driver alone moves it.

    `fault` is an error that wasn't the program's, though it came up inside it: the driver raises it.
    """

    __slots__ = ("fault", "refusals", "state")

    def __init__(self) -> None:
        self.state: Literal["idle", "open", "closed"] = "idle"
        self.refusals = 0
        self.fault: Exception | None = None

    def taken_fault(self) -> Exception:
        """The fault, which the gate forgets: else it would hold the frames that it passes."""
        fault, self.fault = self.fault, None
        return fault or RuntimeError("there was no fault")

    def refuse(self) -> None:
        """Raise what an operation that is awaited at the wrong time raises.

        Returns if a closed program swallowed it too often: the operation then yields, which ends the closing.
        """
        if self.state == "idle":
            raise InvalidOperationError(
                "a script's operations can be awaited by the script alone, not in its steps or by other code"
            )
        self.refusals += 1
        if self.refusals <= _REFUSALS_BEFORE_GIVING_UP:
            raise ProgramClosed("this run was let go; nothing that it awaits now is recorded")


class Operation(Generic[T]):
    """Something that a script awaits, once. `op` is its identity if its place doesn't give it (in flows).

    `kind` and `name` are compared with what a history holds; not everything has a name.
    """

    __slots__ = ("_place", "gate", "name", "op", "used")
    kind: str
    name: str
    gate: Gate
    used: bool
    op: str | None

    def __await__(self) -> Generator[Any, Any, T]:
        """Ask the driver, and go on with the recorded result."""
        if self.gate.state != "open":
            self.gate.refuse()
            yield None
        if self.used:
            raise InvalidOperationError(f"{self.title} (made at {self.line}) is awaited for the second time")
        return (yield self)  # type: ignore[no-any-return]

    @property
    def title(self) -> str:
        """Kind and name, for people and for divergences."""
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def line(self) -> str:
        """Where it was made, as `module:number`."""
        place = self._place
        return place if isinstance(place, str) else format_line(*place)

    @property
    def digested(self) -> bytes:
        """What the digest of the arguments is made of: kind, name, arguments."""
        return self.kind.encode()

    def _begin(self, gate: Gate, place: Place, name: str = "", op: str | None = None) -> None:
        self.gate = gate
        self._place = place
        self.name = name
        self.op = op
        self.used = False


class Call(Operation[Any]):
    """A call of a tool. `op` and `retry` are given by flows only."""

    __slots__ = ("arguments", "retry", "tool")
    kind = "call"

    def __init__(
        self,
        gate: Gate,
        place: Place,
        tool: Tool,
        value: object,
        *,
        op: str | None = None,
        retry: Retry = ONCE,
    ) -> None:
        self._begin(gate, place, f"{tool.id}@{tool.version}", op)
        self.tool = tool
        self.arguments = encode_arguments(value, tool.id)
        self.retry = retry

    @property
    def digested(self) -> bytes:
        """See `Operation.digested`."""
        return b"call\x00%b\x00%b" % (self.tool.id.encode(), self.arguments)


class Step(Operation[Any]):
    """A function of the script's own."""

    __slots__ = ("arguments", "run")
    kind = "step"

    def __init__(self, gate: Gate, place: Place, name: str, run: Callable[[], Any], arguments: bytes) -> None:
        self._begin(gate, place, name)
        self.run = run
        self.arguments = arguments

    @property
    def digested(self) -> bytes:
        """See `Operation.digested`."""
        return b"step\x00%b\x00%b" % (self.name.encode(), self.arguments)


class Sleep(Operation[None]):
    """A timer."""

    __slots__ = ("duration",)
    kind = "sleep"

    def __init__(self, gate: Gate, place: Place, duration: timedelta) -> None:
        self._begin(gate, place)
        self.duration = duration

    @property
    def digested(self) -> bytes:
        """See `Operation.digested`."""
        return b"sleep\x00%d" % (self.duration // timedelta(microseconds=1))


class Value(Operation[T]):
    """A clock reading, an id or a random number; `read` makes it of the recorded text."""

    __slots__ = ("kind", "read")

    def __init__(
        self, gate: Gate, place: Place, kind: Literal["now", "uuid", "random"], read: Callable[[str], T]
    ) -> None:
        self._begin(gate, place)
        self.kind = kind
        self.read = read


Branchable = Operation[Any] | Coroutine[Any, Any, Any]


class Branches(Operation[T]):
    """A `gather`, a `race`, or all steps of a `flow`. Branch i starts after the branches `after[i]`."""

    __slots__ = ("after", "kind", "parts", "return_exceptions")

    def __init__(
        self,
        gate: Gate,
        place: Place,
        kind: Literal["gather", "race", "flow"],
        parts: Sequence[Branchable],
        *,
        return_exceptions: bool = False,
        after: Sequence[Sequence[int]] | None = None,
        op: str | None = None,
    ) -> None:
        self._begin(gate, place, op=op)
        self.kind = kind
        self.parts = tuple(parts)
        self.return_exceptions = return_exceptions
        self.after = after


class Winner(NamedTuple):
    """Which branch ended a race, counted from 0, and what it returned."""

    index: int  # type: ignore[assignment] # hides `tuple.index`, which nobody asks of a winner
    value: Any
