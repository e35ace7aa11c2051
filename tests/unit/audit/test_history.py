"""Verification of a run: what holds has no findings, whatever was changed is named."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.audit.findings import RULES, Finding
from abeyance.audit.history import verify_run
from abeyance.crypto.signing import FileSigner
from abeyance.errors import HistoryDamagedError
from abeyance.journal import events as e
from abeyance.journal.store import EventRow
from tests.unit.projections.histories import SIGNER, START, Author, authors, begin

KEYS = {SIGNER.kid: SIGNER.public_key}


def verify(author: Author, rows: list[EventRow] | None = None, *, head: bool = True) -> list[Finding]:
    control = author.written.control if head else None
    events = author.written.events if rows is None else rows
    return verify_run(events, KEYS, codec=author.desk.codec, control=control)


def rules(findings: list[Finding]) -> set[tuple[int | None, str]]:
    return {(finding.version, finding.rule) for finding in findings}


def answered() -> Author:
    """Six events: started, call-started, call-paused, suspended, wait-token-completed, completed."""
    return begin().play("call", "pause 1", "suspend").play("answer 1", "completed")


def flipped(row: EventRow, place: int, bit: int) -> EventRow:
    state = bytearray(row.state)
    state[place % len(state)] ^= 1 << bit
    return row._replace(state=bytes(state))


def plain(author: Author, row: EventRow) -> bytes | None:
    try:
        return author.desk.codec.plain(row)
    except HistoryDamagedError:
        return None


class TestVerifyRun:
    @given(authors())
    def test_what_the_engine_writes_has_no_findings(self, author: Author) -> None:
        assert [] == verify(author)

    @pytest.mark.case("G10")
    @given(authors(8), st.integers(min_value=0), st.integers(min_value=0), st.integers(0, 7))
    def test_a_changed_byte_is_found_at_its_event(
        self, author: Author, event: int, place: int, bit: int
    ) -> None:
        """A flipped bit is found, unless what it makes unpacks to the very bytes that were signed."""
        rows = list(author.written.events)
        event %= len(rows)
        before = rows[event]
        rows[event] = flipped(before, place, bit)

        found = {finding.version for finding in verify(author, rows)}

        signature_kept = rows[event].state[:72] == before.state[:72]
        same = signature_kept and plain(author, rows[event]) == plain(author, before)
        assert (not same) == (event + 1 in found)

    def test_a_changed_byte_of_a_signature_is_found_there_and_nowhere_else(self) -> None:
        author = answered()
        rows = list(author.written.events)
        rows[2] = flipped(rows[2], 40, 0)

        assert {(3, "signature")} == rules(verify(author, rows))

    @pytest.mark.parametrize(
        ("change", "rule"),
        [
            (lambda row: row._replace(topic="call-completed"), "row"),
            (lambda row: row._replace(version=9), "version"),
            (lambda row: row._replace(state=row.state[:72] + b"\x09" + row.state[73:]), "unreadable"),
            (lambda row: row._replace(state=row.state[:40]), "unreadable"),
        ],
    )
    @pytest.mark.case("G10")
    def test_a_changed_column_is_found(self, change: Callable[[EventRow], EventRow], rule: str) -> None:
        author = answered()
        rows = list(author.written.events)
        rows[2] = change(rows[2])

        assert rule in {finding.rule for finding in verify(author, rows)}

    def test_an_event_of_another_run_is_found(self) -> None:
        author, other = answered(), begin(UUID(int=8)).play("call", "pause 1", "suspend")
        rows = list(author.written.events)
        rows[2] = other.written.events[2]._replace(run_id=author.run_id)

        assert 3 in {finding.version for finding in verify(author, rows)}

    @pytest.mark.case("G04")
    @pytest.mark.parametrize("gone", range(5))
    def test_an_event_that_was_dropped_is_found(self, gone: int) -> None:
        author = answered()
        rows = list(author.written.events)
        del rows[gone]

        assert {(gone + 2, "version"), (gone + 2, "chain")} <= rules(verify(author, rows))

    @pytest.mark.case("G02")
    def test_a_cut_off_tail_is_found_by_the_control_row(self) -> None:
        author = answered()

        assert {(5, "head")} == rules(verify(author, author.written.events[:-1]))
        assert [] == verify(author, author.written.events[:-1], head=False)

    def test_a_run_of_which_nothing_is_left_is_found_by_the_control_row(self) -> None:
        assert {(None, "head")} == rules(verify(answered(), []))

    def test_two_events_that_changed_places_are_found(self) -> None:
        author = answered()
        rows = list(author.written.events)
        rows[1], rows[2] = rows[2], rows[1]

        assert {2, 3, 4} & {version for version, rule in rules(verify(author, rows)) if rule == "version"}

    def test_every_broken_event_is_listed(self) -> None:
        author = answered()
        rows = [flipped(row, 20, 3) for row in author.written.events]

        assert {(version, "signature") for version in range(1, 7)} == rules(verify(author, rows))

    def test_a_key_that_the_log_does_not_certify_is_found(self) -> None:
        author = answered()

        found = verify_run(author.written.events, {}, codec=author.desk.codec)

        assert {(version, "key") for version in range(1, 7)} == rules(found)

    def test_a_finding_names_the_event_and_says_nothing_of_its_content(self) -> None:
        author = answered()
        rows = list(author.written.events)
        rows[3] = flipped(rows[3], 40, 0)

        (finding,) = verify(author, rows)

        expected = author.desk.codec.open(author.written.events[3]).digest.hex()
        assert (4, "suspended", expected) == (finding.version, finding.topic, finding.event_id)
        assert finding.rule in RULES
        assert str(finding).startswith(f"event 4 (suspended) of {author.run_id}: ")


class Forger:
    """Signs what the engine would never write, with the right key and a right chain."""

    def __init__(self, author: Author) -> None:
        self.author = author
        self.rows = list(author.written.events)
        self.last = author.desk.codec.open(self.rows[-1])

    def add(self, event: e.Event, *, signer: FileSigner = SIGNER, hours: int = 0) -> "Forger":
        row, self.last = self.author.desk.codec.seal(
            event, stream=self.author.run_id, version=self.last.version + 1, prev=self.last.digest,
            at=self.last.at + timedelta(hours=hours), signer=signer,
        )  # fmt: skip
        self.rows.append(row)
        return self

    def rules(self) -> set[tuple[int | None, str]]:
        return rules(verify(self.author, self.rows, head=False))


def answer(author: Author, **changes: object) -> dict[str, object]:
    ref = author.desk.vault.commit(b"1").ref
    return {"answer": ref, "by": "link", "wait": next(iter(author.now.waits)), **changes}


class TestRunRules:
    """Signed with the right key, chained, and still not what a run may do."""

    def test_nothing_follows_the_end(self) -> None:
        forger = Forger(begin().play("completed")).add(e.Cancelled())

        assert {(3, "end")} == forger.rules()

    def test_a_token_takes_one_answer(self) -> None:
        author = begin().play("call", "pause 1", "suspend")
        completed = e.WaitTokenCompleted.model_validate(answer(author))

        assert {(6, "wait")} == Forger(author).add(completed).add(completed).rules()

    def test_an_answer_is_taken_only_where_the_run_waits(self) -> None:
        author = begin().play("call")
        completed = e.WaitTokenCompleted.model_validate(answer(author))

        assert {(3, "wait")} == Forger(author).add(completed).rules()

    def test_an_answer_belongs_to_a_token_that_was_issued(self) -> None:
        author = begin().play("call", "pause 1")
        completed = e.WaitTokenCompleted.model_validate(answer(author, wait="pause:none:1"))

        assert {(4, "wait")} == Forger(author).add(completed).rules()

    def test_only_a_held_answer_is_discarded(self) -> None:
        author = begin().play("call")
        ref = author.desk.vault.commit(b"1").ref
        discarded = e.WaitTokenDiscarded(answer=ref, reason="run-ended", wait=next(iter(author.now.waits)))

        assert {(3, "wait")} == Forger(author).add(discarded).rules()

    def test_a_held_answer_is_not_lost_at_the_end(self) -> None:
        author = begin().play("call", "hold 1")

        assert {(4, "wait")} == Forger(author).add(e.Cancelled()).rules()

    def test_another_answer_than_the_held_one_is_not_taken(self) -> None:
        author = begin().play("call", "hold 1")
        wait = next(iter(author.now.waits))
        paused = e.CallPaused(line="shop:1", op="1", times_out_at=START, wait=wait)
        completed = e.WaitTokenCompleted.model_validate(answer(author, held=True))

        assert {(5, "wait")} == Forger(author).add(paused).add(completed).rules()

    def test_a_token_does_not_time_out_before_it_is_waited_for(self) -> None:
        author = begin().play("call")
        timed_out = e.WaitTokenTimedOut(wait=next(iter(author.now.waits)))

        assert {(3, "wait")} == Forger(author).add(timed_out).rules()

    def test_a_run_begins_once(self) -> None:
        author = begin()
        started = author.desk.codec.open(author.written.events[0]).event

        assert {(2, "beginning")} == Forger(author).add(started).rules()

    def test_time_does_not_go_backwards(self) -> None:
        assert {(2, "time")} == Forger(begin()).add(e.Suspended(
            approvals=0, open_waits="0" * 64, other=0, signals=0, tokens=0), hours=-1).rules()  # fmt: skip

    def test_another_key_does_not_sign_for_this_log(self) -> None:
        other = FileSigner.from_seed(b"\x09" * 32)

        assert {(2, "key")} == Forger(begin()).add(e.Cancelled(), signer=other).rules()
