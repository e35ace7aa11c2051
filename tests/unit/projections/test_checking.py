"""The check of the inline read models, over random histories in memory."""

import asyncio
import copy
from typing import Any
from uuid import UUID

from hypothesis import assume, given
from hypothesis import strategies as st

from abeyance.journal.envelope import EventCodec
from abeyance.projections.checking import check
from abeyance.projections.drift import Drift
from abeyance.projections.read_models import ChangedRun, NewRun
from abeyance.projections.runs_list import STATUS_AFTER, runs_changes
from tests.unit.projections.histories import (
    CALL,
    ORIGIN,
    START,
    Author,
    Written,
    authors,
    begin,
    move_lists,
    write,
)
from tests.unit.projections.memory import MemorySnapshot

CODEC = EventCodec(ORIGIN)
DETERMINED = ("version", "head", "status", "key_id", "workspace", "project", "created", "updated")
WAIT_COLUMNS = ("call_key", "ordinal", "state", "paused", "answer", "due", "closed")


def drift(*runs: Written) -> tuple[Drift, ...]:
    return asyncio.run(check(MemorySnapshot(runs), CODEC)).drift


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, UUID):
        return UUID(int=value.int ^ 1)
    if isinstance(value, str):
        return value + "x"
    return 1 if value is None else value + 1


class TestInlineRows:
    @given(st.lists(move_lists(15), max_size=3))
    def test_the_rows_of_any_history_are_what_its_events_make(self, runs: list[list[int]]) -> None:
        written = [write(moves, UUID(int=number)).written for number, moves in enumerate(runs, 1)]

        assert () == drift(*written)

    @given(authors(15), st.sampled_from(DETERMINED))
    def test_a_changed_column_of_a_control_row_is_found(self, author: Author, column: str) -> None:
        written = copy.copy(author.written)
        assert written.control is not None
        written.control = written.control._replace(**{column: other(getattr(written.control, column))})

        assert [("run_control", column)] == [(each.model, each.column) for each in drift(written)]

    @given(authors(14, first=CALL), st.sampled_from(WAIT_COLUMNS), st.integers(min_value=0))
    def test_a_changed_column_of_a_wait_is_found(self, author: Author, column: str, which: int) -> None:
        written = copy.copy(author.written)
        opened = sorted(written.waits)[which % len(written.waits)]
        wait = written.waits[opened]
        written.waits = {**written.waits, opened: wait._replace(**{column: other(getattr(wait, column))})}

        assert [("waits", f"opened {opened}", column)] == [
            (each.model, each.row, each.column) for each in drift(written)
        ]

    @given(authors(14, first=CALL), st.integers(min_value=0))
    def test_a_link_that_leads_elsewhere_or_nowhere_is_found(self, author: Author, which: int) -> None:
        written = copy.copy(author.written)
        assume(written.links)  # a revoked wait has none
        digest = sorted(written.links)[which % len(written.links)]
        gone = {key: link for key, link in written.links.items() if key != digest}
        moved = {**gone, digest: written.links[digest]._replace(opened=99)}

        for links, column in ((gone, ""), (moved, "opened")):
            written.links = links
            assert [(digest.hex(), column)] == [(each.row, each.column) for each in drift(written)]

    def test_a_run_that_would_sleep_past_its_deadline_is_found(self) -> None:
        written = begin().play("call", "pause 1", "timer", "suspend").written
        assert written.control is not None
        assert written.control.due is not None

        due = written.control.due
        written.control = written.control._replace(due=due - 1)
        early = drift(written)
        written.control = written.control._replace(due=due + 1)

        assert () == early
        assert ["due"] == [each.column for each in drift(written)]


class TestRunsChanges:
    @given(authors(15), st.integers(min_value=0))
    def test_the_list_has_the_status_that_the_run_has(self, author: Author, cut: int) -> None:
        """Whether a run's events come in one batch or in two. Without a status it stays as it was."""
        events = author.written.events
        cut = 1 + cut % len(events)
        first, second = runs_changes(events[:cut], CODEC), runs_changes(events[cut:], CODEC)
        whole = runs_changes(events, CODEC)

        newest = (author.now.version, author.now.status)
        assert [newest] == [(run.version, run.status) for run in whole.new]
        (new,) = first.new
        after = [(run.version, run.status or new.status) for run in second.changed]
        later = after or [(new.version, new.status)]
        assert ([newest], []) == (later, second.new)

    def test_a_new_run_tells_what_it_is_found_by(self) -> None:
        author = begin(UUID(int=5), {"order": "1"})
        created = int(START.timestamp() * 1_000_000)

        changes = runs_changes(author.written.events, CODEC)

        expected = NewRun(UUID(int=5), created, 1, "pending", "shop.ship-order", {"order": "1"})
        assert ([expected], []) == (changes.new, changes.changed)

    def test_several_events_of_a_run_are_one_change(self) -> None:
        events = begin(UUID(int=5)).play("call", "pause 1", "suspend").written.events

        changes = runs_changes(events[1:], CODEC)

        assert [ChangedRun(UUID(int=5), 4, "suspended")] == changes.changed

    def test_every_status_has_an_event_that_leads_to_it(self) -> None:
        assert {"pending", "suspended", "completed", "failed", "cancelled"} == set(STATUS_AFTER.values())
