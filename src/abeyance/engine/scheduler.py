"""Advances the branches of one program: first in, first out, one event's consequences to quiescence.

What holds here:

1. The order in which branches run is the order in which they became ready; nothing depends on a clock, a
   thread, the event loop or the hash seed.
2. A `race` is ended by its first branch to end, a `gather` or flow by its first branch to fail. At the
   quiescence after that its other branches are frozen: what they wait for is abandoned, and the decision is
   asked for. Only the event of the decision throws `BranchCancelled` into them, in branch order, inner
   branches first.
3. A group hands on once every branch has ended (structured concurrency). A loser that catches
   `BranchCancelled` may go on under its own path; what it returns or raises is dropped.
4. Coroutines are closed here, on the caller's thread, with the gate closed, and nowhere else.
5. Nothing that a program keeps holds what advances it: its code runs on a stage, `abeyance.engine.stage`.
"""

from collections import deque
from contextvars import Context
from types import CoroutineType
from typing import Any

from abeyance.engine import isolation
from abeyance.engine.awaitables import Branches, Gate, Operation, Winner
from abeyance.engine.branches import Branch, Group, Pending
from abeyance.engine.operations import Outcome, Raised, Returned
from abeyance.engine.outcomes import line_of_suspended, raised_by
from abeyance.engine.scripting import discard
from abeyance.engine.stage import run_on_stage
from abeyance.errors import BranchCancelled, InvalidOperationError, TooManyBranchesError

MAX_BRANCHES = 1_000
"""Open branches of one run at once."""
_MAX_PATH_LENGTH = 150
"""Ids of operations stand in events, which take 200 characters."""

_Ready = tuple[Branch, Any, BaseException | None]


class Scheduler:
    """The branches of one program.

    `asked` holds what is asked for and not begun (for a `Group` its decision), in the order of asking,
    `opened` what has begun, `abandoned` what a lost branch left behind, each by operation id. `groups` are
    the open ones.
    """

    __slots__ = (
        "_branches", "_groups_opened", "_root", "_undecided", "abandoned", "asked", "gate", "groups",
        "opened", "outcome", "ready", "refused_to_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self.gate = Gate()
        self.asked: dict[str, Pending | Group] = {}
        self.opened: dict[str, Pending] = {}
        self.abandoned: dict[str, Pending | Group] = {}
        self.groups: dict[str, Group] = {}
        self.ready: deque[_Ready] = deque()
        self.outcome: Outcome | None = None
        self.refused_to_end: list[str] = []
        self._root: Branch | None = None
        self._undecided: list[Group] = []
        self._branches = 0
        self._groups_opened = 0

    def start(self, coroutine: "CoroutineType[Any, Any, bytes]") -> None:
        """Make the program's own branch ready."""
        self._root = Branch(coroutine, Context())
        self.ready.append((self._root, None, None))

    def resume(self, pending: Pending, value: Any, error: BaseException | None = None) -> None:
        """Make the branch that waits for `pending` ready to go on with a result."""
        pending.branch.waiting = None
        self.ready.append((pending.branch, value, error))

    def decide(self, group: Group) -> None:
        """The end of `group` is recorded: cancel the branches that lost."""
        group.decided = True
        for branch in group.unended():
            self._cancel(branch)
        if not group.open:
            self._hand_on(group)

    def run(self) -> None:
        """Advance what is ready until nothing is."""
        self.gate.state = "open"
        outside = isolation.enter()
        try:
            while self.ready:
                while self.ready:
                    self._advance(*self.ready.popleft())
                if self._undecided:
                    self._settle()
        finally:
            isolation.leave(outside)
            if self.gate.state == "open":
                self.gate.state = "idle"

    def close(self) -> None:
        """Close every coroutine, inner branches first. Never raises; `refused_to_end` says who went on."""
        if self.gate.state == "closed":
            return
        self.gate.state = "closed"
        self.ready.clear()
        outside = isolation.enter()
        try:
            if self._root is not None:
                self._close(self._root)
        finally:
            isolation.leave(outside)

    def _advance(self, branch: Branch, value: Any, error: BaseException | None) -> None:
        coroutine = branch.coroutine
        if coroutine is None:
            self._advance_single(branch, value, error)
            return
        branch.started = True
        if error is None:
            result, failure, ended = run_on_stage(branch.context, coroutine.send, value)
        else:
            result, failure, ended = run_on_stage(branch.context, coroutine.throw, error)
        if isinstance(failure, KeyboardInterrupt | MemoryError):
            try:
                raise failure  # the process's trouble, not the program's end
            finally:
                del failure
        if self.gate.fault is not None:
            raise self.gate.taken_fault()
        if ended:
            self._end(branch, result, failure)
        else:
            self._ask(branch, result)

    def _advance_single(self, branch: Branch, value: Any, error: BaseException | None) -> None:
        operation = branch.first
        if branch.started or error is not None or operation is None:
            self._end(branch, value, error)
            return
        branch.started = True
        if operation.used:
            problem = f"{operation.title} (made at {operation.line}) is awaited for the second time"
            self._end(branch, None, InvalidOperationError(problem))
        else:
            self._ask(branch, operation)

    def _ask(self, branch: Branch, asked: object) -> None:
        if not isinstance(asked, Operation) or asked.gate is not self.gate:
            self._refuse(branch)
            return
        asked.used = True
        op = asked.op
        if op is None:
            branch.asked += 1
            op = f"{branch.prefix}{branch.asked}"
        if isinstance(asked, Branches):
            self._open(branch, op, asked)
        else:
            branch.waiting = self.asked[op] = Pending(op, asked, branch)

    def _open(self, owner: Branch, op: str, operation: Branches[Any]) -> None:
        problem: Exception | None = None
        if self._branches + len(operation.parts) > MAX_BRANCHES:
            problem = TooManyBranchesError(MAX_BRANCHES)
        elif len(op) > _MAX_PATH_LENGTH:
            problem = InvalidOperationError(f"{operation.title} at {operation.line} is nested too deep")
        if problem is not None or not operation.parts:
            discard(operation.parts)
            self.ready.append((owner, [], problem))
            return
        self._groups_opened += 1
        self._branches += len(operation.parts)
        group = Group(op, operation, owner, self._groups_opened)
        owner.waiting = self.groups[op] = group
        self.ready.extend(
            (branch, None, None) for branch in group.branches if not group.missing[branch.index]
        )

    def _end(self, branch: Branch, value: Any, error: BaseException | None) -> None:
        branch.ended = True
        branch.coroutine = None
        group = branch.group
        if group is None:
            self.outcome = Returned(output=value) if error is None else raised_by(error)
            return
        self._branches -= 1
        group.open -= 1
        if group.winner is None:
            self._count(group, branch, value, error)
        if not group.open and (group.winner is None or group.decided or group.cancelled):
            self._hand_on(group)

    def _count(self, group: Group, branch: Branch, value: Any, error: BaseException | None) -> None:
        if group.operation.return_exceptions and isinstance(error, Exception):
            value, error = error, None
        group.values[branch.index] = value
        if error is not None or group.is_race:
            group.winner = branch.index
            group.error = error
            self._undecided.append(group)
        else:
            self.ready.extend((released, None, None) for released in group.released(branch))

    def _settle(self) -> None:
        """Ask for the decisions of the groups that just ended, outer ones first: they freeze inner ones."""
        undecided = sorted(self._undecided, key=lambda group: group.number)
        self._undecided.clear()
        for group in undecided:
            if group.frozen:
                continue
            losers = [branch for branch in group.unended() if branch.started]
            if not losers and not group.is_race:
                # Nothing is under way that a decision would stop: only steps that now never start.
                self._drop(group)
                self._hand_on(group)
                continue
            for branch in losers:
                self._freeze(branch)
            self.asked[group.op] = group

    def _drop(self, group: Group) -> None:
        for branch in group.unended():
            branch.ended = True
            self._branches -= 1
            if branch.coroutine is not None:
                branch.coroutine.close()
                branch.coroutine = None

    def _hand_on(self, group: Group) -> None:
        del self.groups[group.op]
        owner = group.owner
        owner.waiting = None
        values, error = group.release()
        if group.cancelled:
            self.ready.append((owner, None, BranchCancelled()))
        elif error is not None:
            self.ready.append((owner, None, error))
        elif group.is_race and group.winner is not None:
            self.ready.append((owner, Winner(group.winner, values[group.winner]), None))
        else:
            self.ready.append((owner, values, None))

    def _freeze(self, branch: Branch) -> None:
        waiting = branch.waiting
        if isinstance(waiting, Group):
            waiting.frozen = True
            if self.asked.pop(waiting.op, None) is not None:
                self.abandoned[waiting.op] = waiting
            for inner in waiting.unended():
                self._freeze(inner)
        elif waiting is not None:
            self.asked.pop(waiting.op, None)
            self.opened.pop(waiting.op, None)
            self.abandoned[waiting.op] = waiting

    def _cancel(self, branch: Branch) -> None:
        waiting = branch.waiting
        if isinstance(waiting, Group):
            waiting.cancelled = True
            for inner in waiting.unended():
                self._cancel(inner)
            if not waiting.open:
                self._hand_on(waiting)
        else:
            branch.waiting = None
            self.ready.append((branch, None, BranchCancelled()))

    def _refuse(self, branch: Branch) -> None:
        """End the program: it awaits what no history can give it."""
        line = line_of_suspended(branch.coroutine)
        self.outcome = Raised(code="nondeterministic-await", detail=isolation.WAY_OUT, line=line)
        self.abandoned.update(self.asked)
        self.abandoned.update(self.opened)
        self.asked.clear()
        self.opened.clear()
        self._undecided.clear()
        self.close()

    def _close(self, branch: Branch) -> None:
        if isinstance(branch.waiting, Group):
            for inner in branch.waiting.unended():
                self._close(inner)
        coroutine, branch.coroutine = branch.coroutine, None
        if coroutine is None:
            return
        self.gate.refusals = 0
        line = line_of_suspended(coroutine)
        _, error, _ = run_on_stage(branch.context, coroutine.close)
        # A `finally` may raise what it likes; only one that goes on awaiting is worth a word.
        if isinstance(error, RuntimeError) and "ignored GeneratorExit" in str(error):
            self.refused_to_end.append(line)
