"""`projections check`: is every row what the journal says?

The journal is replayed run by run as of one snapshot, and compared with the inline read models (control rows,
waits, links, the states of workspaces and projects) and the following ones, row by row. What the events don't
determine isn't compared: leases, the key's state, the definition that the run last moved under, and when
exactly a run is due that somebody holds or that is ready. Memory doesn't grow with the journal.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from abeyance.journal.envelope import EventCodec
from abeyance.journal.run import RunState
from abeyance.journal.store import Control, JournalSnapshot, LinkRow, WaitRow
from abeyance.projections.checking_lists import ListCheck
from abeyance.projections.checking_tenants import tenant_drift
from abeyance.projections.checking_waits import WaitsCheck
from abeyance.projections.drift import Drift, differing
from abeyance.projections.recomputed import Recomputed, recompute
from abeyance.world import to_micros

_PAGE = 200

Progress = Callable[[int], None]


def _silent(streams: int) -> None:
    pass


class Inline(NamedTuple):
    """The inline rows of one run as they are stored."""

    control: Control | None
    waits: Mapping[int, WaitRow]


class Check:
    """One check over one snapshot. `streams` and `events` count what was looked at so far."""

    def __init__(self, snapshot: JournalSnapshot, codec: EventCodec) -> None:
        self._snapshot = snapshot
        self._codec = codec
        self._list = ListCheck(snapshot, codec)
        self._waits = WaitsCheck(snapshot, codec)
        self._links = 0
        self.streams = 0
        self.events = 0

    @property
    def position(self) -> int | None:
        """The sealed index up to which the list of runs was applied; `None` if it never was."""
        return self._list.position

    async def drift(self, progress: Progress = _silent) -> AsyncGenerator[Drift, None]:
        """Every row that differs, as it is found."""
        await self._list.begin()
        await self._waits.begin()
        after: UUID | None = None
        while page := await self._page(after):
            inline = await self._inline(page)
            await self._waits.load(page[0], page[-1])
            for stream in page:
                async for found in self._stream(stream, inline[stream]):
                    yield found
            after = page[-1]
            self.streams += len(page)
            progress(self.streams)
        async for found in self._stray_links():
            yield found
        async for found in self._list.stray_labels():
            yield found
        async for found in self._waits.stray():
            yield found
        async for found in tenant_drift(self._snapshot, self._codec):
            yield found

    async def _page(self, after: UUID | None) -> list[UUID]:
        streams = await self._snapshot.streams(after, _PAGE)
        return sorted({*streams, *await self._list.load(after, _PAGE)})[:_PAGE]

    async def _inline(self, page: Sequence[UUID]) -> dict[UUID, Inline]:
        controls = {control.run_id: control for control in await self._snapshot.controls(page)}
        waits: dict[UUID, dict[int, WaitRow]] = {stream: {} for stream in page}
        for wait in await self._snapshot.waits(page):
            waits[wait.run_id][wait.opened] = wait
        return {stream: Inline(controls.get(stream), waits[stream]) for stream in page}

    async def _stream(self, stream: UUID, inline: Inline) -> AsyncIterator[Drift]:
        row = self._list.rows.get(stream)
        recomputed = await recompute(
            self._snapshot, self._codec, stream, mark=None if row is None else row.version
        )
        self.events += recomputed.versions
        if recomputed.damage is not None:
            yield Drift("journal", stream, "history", "", "", f"can't be replayed: {recomputed.damage}")
            return
        for found in (
            *_control(stream, inline.control, recomputed.state),
            *_waits(stream, inline, recomputed),
        ):
            yield found
        async for found in self._stored_links(stream, recomputed):
            yield found
        async for found in self._list.compare(stream, recomputed):
            yield found
        async for found in self._waits.compare(stream, recomputed):
            yield found

    async def _stored_links(self, stream: UUID, recomputed: Recomputed) -> AsyncIterator[Drift]:
        if not recomputed.links:
            return
        stored = {link.digest: link for link in await self._snapshot.links(list(recomputed.links))}
        self._links += len(stored)
        for digest, link in recomputed.links.items():
            for found in differing("links", stream, digest.hex(), stored.get(digest), link, LinkRow._fields):
                yield found

    async def _stray_links(self) -> AsyncIterator[Drift]:
        """Links that no event made; looked for only if there are more links than events made."""
        if await self._snapshot.count_links() == self._links:
            return
        after = b""
        while page := await self._snapshot.links_after(after, _PAGE):
            for run_id in sorted({link.run_id for link in page}):
                recomputed = await recompute(self._snapshot, self._codec, run_id)
                for link in page:
                    known = recomputed.damage is not None or link.digest in recomputed.links
                    if link.run_id == run_id and not known:
                        yield Drift("links", run_id, link.digest.hex(), "", "a row", "no row")
            after = page[-1].digest


_DETERMINED = ("version", "head", "status", "key_id", "workspace", "project", "created", "updated")


def _control(stream: UUID, stored: Control | None, state: RunState | None) -> Iterator[Drift]:
    expected = None if state is None else _expected_control(state, stored)
    yield from differing("run_control", stream, "", stored, expected, _DETERMINED)
    if stored is not None and state is not None:
        yield from _due(stored, state)


def _expected_control(state: RunState, stored: Control | None) -> Control:
    started = state.started
    empty = Control(state.run_id, 0, b"", "", None, None, None, b"", 0, "live", "", "", 0, 0)
    return (stored or empty)._replace(
        version=state.version,
        head=state.head,
        status=state.status,
        key_id=started.key_id,
        workspace=started.workspace,
        project=started.project,
        created=to_micros(state.created_at),
        updated=to_micros(state.at),
    )


def _due(stored: Control, state: RunState) -> Iterator[Drift]:
    """A run that has ended is never due, any other is; one that sleeps, by its nearest deadline."""
    wrong = None
    deadline = state.next_deadline()
    if state.ended and stored.due is not None:
        wrong = "none: the run has ended"
    elif not state.ended and stored.due is None:
        wrong = "a time: the run has not ended"
    elif stored.due is not None and _sleeps(stored, state) and stored.due > deadline:
        wrong = f"at most {deadline}"
    if wrong is not None:
        yield Drift("run_control", stored.run_id, "", "due", str(stored.due), wrong)


def _sleeps(stored: Control, state: RunState) -> bool:
    """Whether nothing but the agenda wakes the run. A parked one is put off while its code doesn't fit."""
    return state.status == "suspended" and stored.lease_id is None and state.mismatch is None


def _waits(stream: UUID, inline: Inline, recomputed: Recomputed) -> Iterator[Drift]:
    for opened in sorted(inline.waits.keys() | recomputed.waits.keys()):
        stored, expected = inline.waits.get(opened), recomputed.waits.get(opened)
        yield from differing("waits", stream, f"opened {opened}", stored, expected, WaitRow._fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check found: `streams` and `events` it looked at, `position` as of which the list of runs was
    compared, and the rows that differ.
    """

    streams: int
    events: int
    position: int | None
    drift: tuple[Drift, ...]


async def check(
    snapshot: JournalSnapshot, codec: EventCodec, *, most: int = 1_000, progress: Progress = _silent
) -> CheckReport:
    """Compare every row with the journal; the report names the first `most` that differ."""
    running = Check(snapshot, codec)
    found: list[Drift] = []
    async with aclosing(running.drift(progress)) as drifts:
        async for drift in drifts:
            found.append(drift)
            if len(found) >= most:
                break
    return CheckReport(
        streams=running.streams, events=running.events, position=running.position, drift=tuple(found)
    )
