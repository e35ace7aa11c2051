"""What holds within one stream: the chain of its events, and what may follow what.

Of a run that has ended only its id is kept, so memory grows by the open runs and by 16 bytes an ended one.
"""

from dataclasses import dataclass, field
from uuid import UUID

from abeyance.verifier.findings import Findings
from abeyance.verifier.records import DEPLOYMENT, BodyError, Record

ENDS = frozenset({"completed", "failed", "cancelled"})
_TOKENS = frozenset(
    {"wait-token-answered", "wait-token-completed", "wait-token-discarded", "wait-token-timed-out"}
)
_OF_WORKSPACES = ("workspace-", "project-", "definition-", "api-key-")
_FIRST = {"started": "run", "workspace-created": "workspace", "log-opened": "deployment"}


@dataclass(slots=True)
class _Stream:
    version: int
    leaf: bytes
    at: str
    is_run: bool
    answered: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)


class Runs:
    """All streams of a bundle. With `whole` every stream begins in it; a filtered one may begin anywhere."""

    def __init__(self, findings: Findings, *, whole: bool, rules: bool = True) -> None:
        """`purged` are the hashes of records whose bodies were purged: they still count as predecessors."""
        self._findings = findings
        self._whole = whole
        self._rules = rules
        self._open: dict[str, _Stream] = {}
        self.purged: set[str] = set()
        self._ended: set[bytes] = set()
        self.count = 0

    @property
    def unfinished(self) -> int:
        """How many runs have no end in what was read."""
        return sum(stream.is_run for stream in self._open.values())

    def take(self, record: Record, leaf: bytes, index: int) -> None:
        """Check the next record of its stream."""
        stream = self._open.get(record.run)
        if stream is None:
            stream = self._begin(record, index)
        else:
            self._follow(stream, record, index)
        stream.version, stream.leaf, stream.at = record.version, leaf, record.at
        if self._rules and record.topic in _TOKENS:
            self._check_token(stream, record, index)
        if record.topic in ENDS:
            del self._open[record.run]
            self._ended.add(UUID(record.run).bytes)

    def _begin(self, record: Record, index: int) -> _Stream:
        self.count += 1
        if UUID(record.run).bytes in self._ended:
            self._add("rules", "something follows the event that ended the run", record, index)
        elif record.version == 1 and record.prev is not None:
            self._add("chain", "the first event of a run names an event before it", record, index)
        elif record.version == 1 and self._rules and record.topic not in _FIRST:
            self._add("rules", f"a run doesn't begin with {record.topic}", record, index)
        elif record.version != 1 and self._whole and record.prev not in self.purged:
            self._add("chain", "the events before this one are missing", record, index)
        of_run = record.run != DEPLOYMENT and not record.topic.startswith(_OF_WORKSPACES)
        stream = _Stream(record.version, b"", record.at, of_run)
        self._open[record.run] = stream
        return stream

    def _follow(self, stream: _Stream, record: Record, index: int) -> None:
        if record.prev in self.purged and record.version > stream.version:
            pass
        elif record.version != stream.version + 1:
            self._add("chain", f"version {record.version} follows version {stream.version}", record, index)
        elif record.prev != stream.leaf.hex():
            self._add("chain", "it names another event as the one before it", record, index)
        if record.at < stream.at:
            self._add("time", "its time is before that of the event before it", record, index)

    def _check_token(self, stream: _Stream, record: Record, index: int) -> None:
        try:
            token = record.fields()["wait"]
        except (BodyError, KeyError):
            self._add("body", f"a {record.topic} names no wait", record, index)
            return
        if record.topic == "wait-token-answered":
            stream.answered.add(token)
        elif record.topic == "wait-token-completed" and token in stream.closed:
            self._add("rules", "a wait takes a second answer", record, index)
        elif record.topic == "wait-token-discarded" and self._whole and token not in stream.answered:
            self._add("rules", "an answer is dropped that was never held", record, index)
        if record.topic != "wait-token-answered":
            stream.closed.add(token)

    def _add(self, check: str, problem: str, record: Record, index: int) -> None:
        self._findings.add("tampered", check, problem, index=index, run=record.run, version=record.version)
