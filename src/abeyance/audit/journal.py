"""Verification of a whole journal as of one snapshot: every stream, its order, and the sealed index.

Needs no secret: the keys that count are those that the deployment's own stream certifies, held to a root key
from elsewhere if one is given. Memory doesn't grow with the journal, only with what is found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from abeyance.audit.findings import Finding
from abeyance.audit.history import HistoryVerifier
from abeyance.audit.keys import CertifiedKeys, certified_keys
from abeyance.audit.live import LogVerifier
from abeyance.audit.positions import KeyPlaces, find_places
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import Control, EventRow, JournalSnapshot

_STREAMS = 200
_EVENTS = 500
_UNSEALED = 1 << 62

Progress = Callable[[int], None]


def _silent(events: int) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What a verification of a store found. `sealed` is the size of the sealed index, `signed` that of the
    newest checkpoint.
    """

    origin: str
    anchored: bool
    streams: int
    events: int
    sealed: int
    signed: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """`unusable` if there is no log to verify by; `tampered` if a finding proves it; `unanchored` if all
        holds but no root key from elsewhere says whose log it is; else `verified`.
        """
        if not self.origin:
            return "unusable"
        if self.findings:
            return "tampered"
        return "verified" if self.anchored else "unanchored"


async def verify_store(
    snapshot: JournalSnapshot, *, root_public_key: bytes | None = None, progress: Progress = _silent
) -> StoreReport:
    """Verify everything that is stored. `root_public_key` is the pin, 32 raw bytes; `progress` is told how
    many events were verified so far.
    """
    keys = certified_keys(await _all_events(snapshot, DEPLOYMENT_STREAM), root_public_key)
    running = _Verification(snapshot, keys, await find_places(snapshot, keys))
    after: UUID | None = None
    while page := await snapshot.streams(after, _STREAMS):
        controls = {control.run_id: control for control in await snapshot.controls(page)}
        for stream in page:
            await running.verify(stream, controls.get(stream))
            progress(running.events)
        running.streams += len(page)
        after = page[-1]
    return await running.report()


async def _all_events(snapshot: JournalSnapshot, stream: UUID) -> list[EventRow]:
    rows: list[EventRow] = []
    while page := await snapshot.events(stream, after=rows[-1].version if rows else 0, limit=_EVENTS):
        rows += page
    return rows


class _Verification:
    def __init__(self, snapshot: JournalSnapshot, keys: CertifiedKeys, places: KeyPlaces) -> None:
        self._snapshot = snapshot
        self._places = places
        self._keys = keys
        self._codec = EventCodec(keys.origin)
        self._findings = list(keys.findings)
        self._indexed = 0
        self.streams = 0
        self.events = 0

    async def verify(self, stream: UUID, control: Control | None) -> None:
        """Verify one stream; the deployment's has been, its keys are known by it."""
        history = HistoryVerifier(self._codec)
        last_index, version = -1, 0
        while rows := await self._snapshot.events(stream, after=version, limit=_EVENTS):
            self.events += len(rows)
            if stream != DEPLOYMENT_STREAM:
                for row in rows:
                    self._findings += history.take(row, self._keys.event_keys)
            last_index = await self._verify_order(stream, rows, last_index)
            version = rows[-1].version
        if control is not None or history.run:
            self._findings += history.finish(control)

    async def _verify_order(self, stream: UUID, rows: list[EventRow], last_index: int) -> int:
        """A stream's events are sealed in their order, none before the one that it follows, and each where
        its key counts.
        """
        indexes = await self._snapshot.sealed_indexes(stream, [row.version for row in rows])
        self._findings += self._places.check(rows, indexes)
        self._indexed += len(indexes)
        for row in rows:
            index = indexes.get(row.version, _UNSEALED)
            if index <= last_index and index != _UNSEALED:
                problem = f"sealed at index {index}, before the event that it follows"
                self._findings.append(
                    Finding(
                        rule="sealed", stream=stream, version=row.version, problem=problem, topic=row.topic,
                        index=index,
                    )
                )  # fmt: skip
            last_index = max(last_index, index)
        return last_index

    async def report(self) -> StoreReport:
        """What was found, with the events that the sealed index names and that aren't there."""
        size = await self._snapshot.sealed_size()
        if self._indexed != size:
            await self._find_missing(size)
        log = LogVerifier(self._snapshot, self._codec, tuple(self._keys.log_keys.values()))
        await log.verify()
        self._findings += log.findings
        return StoreReport(
            origin=self._keys.origin,
            anchored=self._keys.anchored,
            streams=self.streams,
            events=self.events,
            sealed=size,
            signed=log.size,
            findings=tuple(self._findings),
        )

    async def _find_missing(self, size: int) -> None:
        missing = []
        for start in range(0, size, _EVENTS):
            stop = min(start + _EVENTS, size)
            there = {sealed.sealed_index for sealed in await self._snapshot.read_sealed(start, stop - start)}
            missing += [index for index in range(start, stop) if index not in there]
        problem = "the event with this sealed index isn't stored"
        self._findings += [
            Finding(rule="sealed", stream=DEPLOYMENT_STREAM, version=None, index=index, problem=problem)
            for index in missing
        ]
        if not missing:
            problem = f"{size} events are sealed, and {self._indexed} of the stored ones are among them"
            self._findings.append(
                Finding(rule="sealed", stream=DEPLOYMENT_STREAM, version=None, problem=problem)
            )
