"""Verification of a stream: its events, their chain, and what no run may do (docs/adr/0002).

Every finding is listed and names its event. A broken event breaks its own checks and its link to its
neighbours, nothing else: what follows is judged by itself. What this can't see is an end that was cut off;
a run's last event proves it only if it ended the run, or if the newest event is known from elsewhere
(`head`).
"""

from collections.abc import Mapping, Sequence

from abeyance.audit.events import Examined, examine, finding
from abeyance.audit.findings import Finding
from abeyance.audit.tokens import TokenRules
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import TERMINAL, DefinitionRecorded, LogOpened, Started, WorkspaceCreated
from abeyance.journal.store import Control, EventRow

_TERMINAL_TOPICS = frozenset(kind.topic for kind in TERMINAL)
_OTHER_BEGINNINGS = frozenset((LogOpened.topic, WorkspaceCreated.topic, DefinitionRecorded.topic))


def verify_run(
    rows: Sequence[EventRow],
    public_keys: Mapping[bytes, bytes],
    *,
    codec: EventCodec,
    control: Control | None = None,
) -> list[Finding]:
    """Verify all events of a run, in the order in which they are stored. Empty: everything holds.

    `public_keys` are those that the log certifies for events, by kid. `control` is the run's control row, if
    there is one: the newest event must be the one that it names.
    """
    history = HistoryVerifier(codec, run=True)
    found = [each for row in rows for each in history.take(row, public_keys)]
    return found if control is None else found + history.finish(control)


class HistoryVerifier:
    """Verifies one stream event by event, in memory that doesn't grow with it.

    A run's stream begins with `started`, ends with its one end event, and its wait tokens keep to their
    rules. If `run` doesn't say whether this is one, its first event does.
    """

    def __init__(self, codec: EventCodec, *, run: bool | None = None) -> None:
        self._codec = codec
        self.run = run
        self._last: Examined | None = None
        self._ended_by: int | None = None
        self._tokens = TokenRules()

    def take(self, row: EventRow, public_keys: Mapping[bytes, bytes]) -> list[Finding]:
        """What is wrong with the stream's next event, which must be signed by one of these keys."""
        found = examine(row, self._codec, public_keys)
        if self.run is None:
            self.run = _topic(found) not in _OTHER_BEGINNINGS
        problems = [*self._chain(found), *(self._rules(found) if self.run else ())]
        self._last = found
        return found.findings + [finding(row, found.digest, *problem) for problem in problems]

    def finish(self, control: Control | None) -> list[Finding]:
        """What is wrong at the end of a run: its control row names another newest event, or there is none."""
        last = self._last
        if control is None:
            row = None if last is None else last.row
            return [] if row is None else [finding(row, None, "head", "the run has no control row")]
        if last is not None and (control.version, control.head) == (last.row.version, last.digest):
            return []
        problem = f"the control row names event {control.version} as the newest, {control.head.hex()}"
        if last is not None:
            return [finding(last.row, last.digest, "head", f"{problem}; the newest stored is this one")]
        return [
            Finding(rule="head", stream=control.run_id, version=None, problem=f"{problem}; none is stored")
        ]

    def _chain(self, found: Examined) -> list[tuple[str, str]]:
        row, last = found.row, self._last
        problems = []
        expected = 1 if last is None else last.row.version + 1
        if row.version != expected:
            problems.append(("version", f"version {expected} comes next in this stream, not {row.version}"))
        body = found.body
        if body is None:
            return problems
        before = None if last is None else last.digest
        if body.prev != before and (last is None or before is not None):
            problems.append(("chain", "`prev` isn't the id of the event before it"))
        if last is not None and last.body is not None and body.at < last.body.at:
            problems.append(("time", "`at` is earlier than that of the event before it"))
        return problems

    def _rules(self, found: Examined) -> list[tuple[str, str]]:
        problems = []
        topic = _topic(found)
        if self._last is None and topic != Started.topic:
            problems.append(("beginning", f"a run begins with {Started.topic}, not with {topic}"))
        if self._last is not None and topic == Started.topic:
            problems.append(("beginning", f"{Started.topic} stands in the middle of a run"))
        if self._ended_by is not None:
            problems.append(("end", f"event {self._ended_by} has ended the run before"))
        elif topic in _TERMINAL_TOPICS:
            self._ended_by = found.row.version
        problem = None if found.event is None else self._tokens.take(found.event)
        return problems if problem is None else [*problems, ("wait", problem)]


def _topic(found: Examined) -> str:
    """The signed topic, if the body can be read."""
    return found.row.topic if found.body is None else found.body.topic
