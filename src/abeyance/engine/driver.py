"""What a history means: stored events in, wanted operations out.

The driver is pure: no store, no clock, no thread, no event loop, no hash order (ADR 0003). What holds here:

1. The program advances only on events that are fed, in the order of their versions, each one to quiescence
   before the next. Live and replay are this same function.
2. An event that opens an operation must agree with what the program asks for at that place: kind, name,
   version and the keyed digest of the arguments. An event that nobody asked for, or that doesn't agree, is a
   divergence.
3. What the program gets is always the value after a round trip through stored JSON, read when it is waited
   for.
4. Results of abandoned operations, whose branch lost a race, are taken and given to nobody.
"""

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, cast

from pydantic_core import from_json

from abeyance.engine.awaitables import Call, Value
from abeyance.engine.branches import Group, Pending
from abeyance.engine.definitions import Flow, Script
from abeyance.engine.failures import StoredCallFailedError, describe, divergence
from abeyance.engine.flows import flow_program
from abeyance.engine.operations import Outcome, Request, Returned
from abeyance.engine.scheduler import Scheduler
from abeyance.engine.schemas import read_model
from abeyance.engine.scripting import ScriptContext, script_program
from abeyance.errors import DivergenceError, UnknownEventError
from abeyance.journal import events as e

Program = Callable[[ScriptContext, bytes], Coroutine[Any, Any, bytes]]
"""Takes the run's input and returns its output, both as canonical JSON."""


def program_of(definition: Flow | Script) -> Program:
    """The program that a run of `definition` is."""
    return flow_program(definition) if isinstance(definition, Flow) else script_program(definition)


class Driver:
    """One program and how far its history has brought it.

    `digest_args(message)` gives the keyed digest (32 hex digits) of an operation's kind, name and arguments;
    `content(version)` the canonical JSON of the content of the event at that version, called only when
    needed.
    """

    def __init__(
        self, program: Program, *, digest_args: Callable[[bytes], str], content: Callable[[int], bytes]
    ) -> None:
        self._program = program
        self._digest = digest_args
        self._content = content
        self._scheduler = Scheduler()
        self._waits: dict[str, str] = {}
        self._answers: dict[str, int] = {}
        self._begun = False
        self._ended = False
        self._usable = True

    @property
    def outcome(self) -> Outcome | None:
        """How the program ended, or `None`. An event that says so follows."""
        return self._scheduler.outcome

    @property
    def refused_to_end(self) -> tuple[str, ...]:
        """The lines (`module:number`) of coroutines that went on although `close` closed them."""
        return tuple(self._scheduler.refused_to_end)

    def feed(self, version: int, event: e.Event) -> None:
        """Take the event at `version` and advance the program until it waits again.

        Raises `DivergenceError` if the program doesn't ask for what the event records, `UnknownEventError`,
        and whatever `content` raises; the driver can only be closed then.
        """
        if not self._usable:
            raise RuntimeError("this driver was closed, or an earlier event didn't fit: make a new one")
        handle = _HANDLERS.get(type(event), _unknown)
        try:
            if handle is not None:
                if self._ended:
                    raise self._unasked(event)
                handle(self, version, event)
                if self._scheduler.ready:
                    self._scheduler.run()
        except BaseException:
            self._usable = False
            raise

    def wanted(self) -> tuple[Request, ...]:
        """What the program asks for and no event has opened, in the order of asking; nothing abandoned."""
        return tuple(asked.request(self._digest) for asked in self._scheduler.asked.values())

    def request(self, op: str) -> Request | None:
        """The operation if it is asked for or open, and not abandoned. For re-runs."""
        pending = self._scheduler.asked.get(op) or self._scheduler.opened.get(op)
        return pending.request(self._digest) if pending is not None else None

    def is_abandoned(self, op: str) -> bool:
        """Whether the operation's branch has lost: its result is fed to nobody."""
        return op in self._scheduler.abandoned

    def close(self) -> None:
        """End the program's coroutines, on this thread; what they do then isn't recorded. Never raises."""
        self._usable = False
        self._scheduler.close()

    def __del__(self) -> None:
        """Close what its owner forgot, where the last reference is dropped."""
        self._scheduler.close()

    # -- operations are opened ---------

    def _opening(
        self, event: e.Event, op: str, kind: str, name: str = "", args: str | None = None
    ) -> Pending | None:
        """What `event` opens, taken from what is asked for; `None` if it is abandoned. Both are checked."""
        pending = self._scheduler.asked.pop(op, None)
        taken = pending is not None
        if pending is None:
            pending = self._scheduler.abandoned.get(op)
            if pending is None:
                raise self._unasked(event)
        if not self._agrees(pending, kind, name, args):
            raise self._mismatch(pending, event, kind, name)
        return pending if taken else None  # type: ignore[return-value] # a Group agrees with nothing

    def _agrees(self, pending: Pending | Group, kind: str, name: str, args: str | None) -> bool:
        operation = pending.operation
        return (
            operation.kind == kind
            and operation.name == name
            and type(pending) is Pending
            and (args is None or pending.args(self._digest) == args)
        )

    def _mismatch(self, pending: Pending | Group, event: e.Event, kind: str, name: str) -> DivergenceError:
        recorded, operation = describe(event), pending.operation
        if operation.kind == kind and operation.name == name:
            recorded = f"{recorded} with other arguments"
        return divergence(pending.op, recorded, pending.title, pending.line)

    def _started(self, version: int, event: e.Started) -> None:
        if self._begun:
            raise self._unasked(event)
        self._begun = True
        coroutine = self._program(ScriptContext(self._scheduler.gate), self._content(version))
        self._scheduler.start(cast("CoroutineType[Any, Any, bytes]", coroutine))

    def _call_started(self, version: int, event: e.CallStarted) -> None:
        op, name = event.op, f"{event.tool.id}@{event.tool.version}"
        pending = self._scheduler.opened.get(op)
        if pending is None:
            pending = self._opening(event, op, "call", name, event.args)
            if pending is None:
                if event.wait is not None:
                    self._waits[event.wait] = op
                return
            self._scheduler.opened[op] = pending
        elif not pending.failed:
            raise self._unasked(event)
        elif not self._agrees(pending, "call", name, event.args):
            raise self._mismatch(pending, event, "call", name)
        if event.attempt != pending.attempt + 1:
            requested = f"attempt {pending.attempt + 1}"
            recorded = f"attempt {event.attempt} of {pending.title}"
            raise divergence(op, recorded, requested, pending.line)
        pending.attempt = event.attempt
        pending.failed = False
        pending.wait = event.wait
        if event.wait is not None:
            self._waits[event.wait] = op

    def _timer_set(self, version: int, event: e.TimerSet) -> None:
        pending = self._opening(event, event.op, "sleep", args=event.args)
        if pending is not None:
            self._scheduler.opened[event.op] = pending

    # -- operations get their results ---------

    def _call_completed(self, version: int, event: e.CallCompleted) -> None:
        pending = self._close_call(event, event.op)
        if pending is not None:
            self._scheduler.resume(pending, self._output(pending, version))

    def _call_failed(self, version: int, event: e.CallFailed) -> None:
        if not event.final:
            pending = self._open_call(event, event.op)
            if pending is not None:
                pending.failed = True
            return
        pending = self._close_call(event, event.op)
        if pending is not None:
            error = self._failure(event.op, event.code, _tool_of(pending), version, event.detail)
            self._scheduler.resume(pending, None, error)

    def _wait_answered(self, version: int, event: e.WaitTokenAnswered) -> None:
        self._answers[event.wait] = version

    def _wait_completed(self, version: int, event: e.WaitTokenCompleted) -> None:
        op = self._waits.get(event.wait)
        holder = self._answers.get(event.wait) if event.held else version
        if op is None or holder is None:
            raise self._unasked(event)
        pending = self._open_call(event, op)
        if pending is None:
            return
        if pending.wait != event.wait:
            raise self._unasked(event)
        self._close_call(event, op)
        self._scheduler.resume(pending, self._output(pending, holder))

    def _step_completed(self, version: int, event: e.StepCompleted) -> None:
        pending = self._opening(event, event.op, "step", event.name, event.args)
        if pending is not None:
            self._scheduler.resume(pending, from_json(self._content(version)))

    def _step_failed(self, version: int, event: e.StepFailed) -> None:
        pending = self._opening(event, event.op, "step", event.name, event.args)
        if pending is not None:
            error = self._failure(event.op, "handler-error", event.name, version, event.detail)
            self._scheduler.resume(pending, None, error)

    def _value_recorded(self, version: int, event: e.ValueRecorded) -> None:
        pending = self._opening(event, event.op, event.kind)
        if pending is not None:
            self._scheduler.resume(pending, cast(Value[Any], pending.operation).read(event.value))

    def _timer_fired(self, version: int, event: e.TimerFired) -> None:
        pending = self._scheduler.opened.pop(event.op, None)
        if pending is not None and pending.operation.kind == "sleep":
            self._scheduler.resume(pending, None)
        elif pending is not None or event.op not in self._scheduler.abandoned:
            raise self._unasked(event)

    def _race_decided(self, version: int, event: e.RaceDecided) -> None:
        scheduler, op = self._scheduler, event.op
        group = scheduler.asked.get(op) or scheduler.abandoned.get(op)
        if group is None:
            raise self._unasked(event)
        if not isinstance(group, Group) or group.winner is None or group.winner + 1 != event.winner:
            raise divergence(op, describe(event), group.title, group.line)
        if scheduler.asked.pop(op, None) is not None:
            scheduler.decide(group)

    # -- the run ends ---------

    def _completed(self, version: int, event: e.Completed) -> None:
        if not isinstance(self._scheduler.outcome, Returned):
            raise self._unasked(event)
        self._ended = True

    def _stopped(self, version: int, event: e.Failed | e.Cancelled) -> None:
        self._ended = True

    # -- shared ---------

    def _open_call(self, event: e.Event, op: str) -> Pending | None:
        """The open call `op`; `None` if it is abandoned."""
        pending = self._scheduler.opened.get(op)
        if pending is None and op not in self._scheduler.abandoned:
            raise self._unasked(event)
        if pending is not None and pending.operation.kind != "call":
            raise divergence(op, describe(event), pending.title, pending.line)
        return pending

    def _close_call(self, event: e.Event, op: str) -> Pending | None:
        pending = self._open_call(event, op)
        if pending is not None:
            del self._scheduler.opened[op]
            if pending.wait is not None:
                self._waits.pop(pending.wait, None)
                self._answers.pop(pending.wait, None)
        return pending

    def _output(self, pending: Pending, version: int) -> Any:
        stored = self._content(version)
        tool = cast(Call, pending.operation).tool
        try:
            return read_model(tool.output.adapter, stored)
        except Exception as error:  # validators of user code raise what they like
            recorded, requested = f"an output of {tool.id}", f"an output that fits {tool.id}@{tool.version}"
            raise divergence(pending.op, recorded, requested, tool.line or pending.line) from error

    def _failure(
        self, op: str, code: str, name: str, version: int, detail: e.ContentRef | None
    ) -> StoredCallFailedError:
        content = self._content
        load = (lambda: content(version)) if detail is not None else None
        return StoredCallFailedError(code, tool=name, operation=op, gate=self._scheduler.gate, load=load)

    def _unasked(self, event: e.Event) -> DivergenceError:
        """The divergence of an event that records what the program doesn't ask for here."""
        scheduler = self._scheduler
        op = str(getattr(event, "op", None) or getattr(event, "wait", None) or "-")
        here = scheduler.opened.get(op) or scheduler.groups.get(op)
        nearest = (
            here or next(iter(scheduler.asked.values()), None) or next(iter(scheduler.opened.values()), None)
        )
        if here is not None:
            requested = f"{here.title}, which is open"
        elif self._ended or scheduler.outcome is not None:
            requested = "nothing: it has ended"
        else:
            requested = f"nothing there, but {nearest.title}" if nearest is not None else "nothing"
        return divergence(op, describe(event), requested, nearest.line if nearest is not None else "")


def _tool_of(pending: Pending) -> str:
    return cast(Call, pending.operation).tool.id


def _unknown(driver: Driver, version: int, event: e.Event) -> None:
    raise UnknownEventError(event.topic, 1)


_HANDLERS: dict[type[e.Event], Callable[[Driver, int, Any], None] | None] = {
    e.Started: Driver._started,
    e.CallStarted: Driver._call_started,
    e.CallCompleted: Driver._call_completed,
    e.CallFailed: Driver._call_failed,
    e.WaitTokenAnswered: Driver._wait_answered,
    e.WaitTokenCompleted: Driver._wait_completed,
    e.StepCompleted: Driver._step_completed,
    e.StepFailed: Driver._step_failed,
    e.ValueRecorded: Driver._value_recorded,
    e.TimerSet: Driver._timer_set,
    e.TimerFired: Driver._timer_fired,
    e.RaceDecided: Driver._race_decided,
    e.Completed: Driver._completed,
    e.Failed: Driver._stopped,
    e.Cancelled: Driver._stopped,
    # What the world around the program did; the program never sees it.
    e.Rerun: None,
    e.CallPaused: None,
    e.RetryScheduled: None,
    e.Suspended: None,
    e.CodeMismatch: None,
    e.CodeMatched: None,
    e.CrashLoop: None,
    e.CrashLoopRetried: None,
    e.WaitTokenDiscarded: None,
    e.WaitTokenTimedOut: None,
    e.WaitTokenExtended: None,
    e.LinkRotated: None,
    e.LinkRevoked: None,
}
