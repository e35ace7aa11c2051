"""The branches of one program, and what each of them waits for.

A branch is one line of control: the program itself, or one part of a `gather`, `race` or flow. It waits for
one operation (`Pending`) or for the branches that it opened (`Group`). `abeyance.engine.scheduler` moves
them; this file only says what they are and what they ask for.
"""

from collections.abc import Callable, Iterator
from contextvars import Context
from types import CoroutineType
from typing import Any, Literal, cast

from abeyance.engine.arguments import wire_input
from abeyance.engine.awaitables import Branches, Call, Operation, Sleep, Step, Value
from abeyance.engine.operations import (
    CallRequest,
    DecideRequest,
    Request,
    SleepRequest,
    StepRequest,
    ValueRequest,
)


class Branch:
    """One line of control. `coroutine` is `None` if the branch is a single operation, `first`.

    `prefix` is what the ids of its operations begin with, `asked` how many it has asked for.
    """

    __slots__ = (
        "asked",
        "context",
        "coroutine",
        "ended",
        "first",
        "group",
        "index",
        "prefix",
        "started",
        "waiting",
    )

    def __init__(
        self,
        part: "Operation[Any] | CoroutineType[Any, Any, Any]",
        context: Context,
        *,
        prefix: str = "",
        group: "Group | None" = None,
        index: int = 0,
    ) -> None:
        self.coroutine = None if isinstance(part, Operation) else part
        self.first = part if isinstance(part, Operation) else None
        self.context = context
        self.prefix = prefix
        self.group = group
        self.index = index
        self.asked = 0
        self.started = False
        self.ended = False
        self.waiting: Pending | Group | None = None


class Pending:
    """An operation that a branch waits for: asked for, and `opened` once an event says that it has begun.

    `wait` is the wait token of the newest attempt; `failed` says that the attempt failed and another follows.
    """

    __slots__ = ("_args", "_request", "attempt", "branch", "failed", "op", "opened", "operation", "wait")

    def __init__(self, op: str, operation: Operation[Any], branch: Branch) -> None:
        self.op = op
        self.operation = operation
        self.branch = branch
        self.opened = False
        self.failed = False
        self.attempt = 0
        self.wait: str | None = None
        self._args: str | None = None
        self._request: Request | None = None

    def args(self, digest: Callable[[bytes], str]) -> str:
        """The keyed digest of kind, name and arguments."""
        if self._args is None:
            self._args = digest(self.operation.digested)
        return self._args

    def request(self, digest: Callable[[bytes], str]) -> Request:
        """The operation as the executor gets it, the same object each time."""
        if self._request is None:
            self._request = _request_of(self, digest)
        return self._request

    @property
    def title(self) -> str:
        """Kind and name."""
        return self.operation.title

    @property
    def line(self) -> str:
        """The code's line."""
        return self.operation.line


class Group:
    """The branches that one `gather`, `race` or flow opened, and what came of them.

    `winner` is the branch that ended it (0-based): the first to end in a race, the first to fail otherwise.
    `frozen`: its owner's branch lost or ended, so nothing that happens in it counts any more.
    """

    __slots__ = (
        "_request",
        "branches",
        "cancelled",
        "decided",
        "dependents",
        "error",
        "frozen",
        "missing",
        "number",
        "op",
        "open",
        "operation",
        "owner",
        "values",
        "winner",
    )  # fmt: skip

    def __init__(self, op: str, operation: Branches[Any], owner: Branch, number: int) -> None:
        self.op = op
        self.operation = operation
        self.owner = owner
        self.number = number
        self.branches = [
            Branch(
                cast("Operation[Any] | CoroutineType[Any, Any, Any]", part),
                owner.context.copy(),
                prefix=f"{op}.b{index + 1}.",
                group=self,
                index=index,
            )
            for index, part in enumerate(operation.parts)
        ]
        self.open = len(self.branches)
        self.values: list[Any] = [None] * self.open
        self.winner: int | None = None
        self.error: BaseException | None = None
        self.decided = False
        self.cancelled = False
        self.frozen = False
        self._request: DecideRequest | None = None
        after = operation.after or [()] * self.open
        self.missing = [len(needed) for needed in after]
        self.dependents: list[list[Branch]] = [[] for _ in after]
        for branch, needed in zip(self.branches, after, strict=True):
            for index in needed:
                self.dependents[index].append(branch)

    @property
    def is_race(self) -> bool:
        """Whether the first end of a branch ends it, not only the first failure."""
        return self.operation.kind == "race"

    def unended(self) -> Iterator[Branch]:
        """Its branches that haven't ended, in branch order."""
        return (branch for branch in self.branches if not branch.ended)

    def released(self, ended: Branch) -> Iterator[Branch]:
        """The branches that may start now that `ended` has ended, in branch order."""
        for branch in self.dependents[ended.index]:
            self.missing[branch.index] -= 1
            if not self.missing[branch.index]:
                yield branch

    def release(self) -> tuple[list[Any], BaseException | None]:
        """What came of it. The group lets go of it, and of its branches, which hold the group."""
        values, error = self.values, self.error
        self.values, self.error, self.branches, self.dependents = [], None, [], []
        return values, error

    def request(self, _digest: Callable[[bytes], str]) -> Request:
        """The decision that is asked for when a branch has ended the group, the same object each time."""
        if self._request is None:
            if self.winner is None:
                raise AssertionError(f"nothing ended {self.op}")
            self._request = DecideRequest(op=self.op, winner=self.winner + 1, line=self.line)
        return self._request

    @property
    def title(self) -> str:
        """Kind, and who ended it."""
        kind = self.operation.kind
        return kind if self.winner is None else f"{kind} ended by branch {self.winner + 1}"

    @property
    def line(self) -> str:
        """The code's line."""
        return self.operation.line


def _request_of(pending: Pending, digest: Callable[[bytes], str]) -> Request:
    op, operation, line = pending.op, pending.operation, pending.line
    if isinstance(operation, Value):
        kind = cast(Literal["now", "uuid", "random"], operation.kind)
        return ValueRequest(op=op, kind=kind, line=line)
    args = pending.args(digest)
    if isinstance(operation, Step):
        return StepRequest(op=op, name=operation.name, args=args, line=line, run=operation.run)
    if isinstance(operation, Sleep):
        return SleepRequest(op=op, args=args, line=line, duration=operation.duration)
    if isinstance(operation, Call):
        sent = wire_input(operation.tool, operation.arguments)
        return CallRequest(
            op=op, node=op, tool=operation.tool, input=sent, args=args, line=line, retry=operation.retry
        )
    raise AssertionError(f"an operation that nobody asks for: {operation.title}")
