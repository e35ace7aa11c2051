"""The run as readers see it, from the store and from memory."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given

from abeyance.errors import ContentErasedError, VerificationError
from abeyance.projections.run_view import run_view, run_view_of
from abeyance.projections.views import OtherView, RunView, WaitingFor
from tests.unit.projections.histories import KEY, LEASE, START, Author, authors, begin, fixed_desk


def stored_view(author: Author, *, erased: bool = False, now: datetime = START) -> RunView:
    desk = author.desk
    key = None if erased else KEY
    return run_view(author.written.record, codec=desk.codec, vault=desk.vault, key=key, now=now)


def held_view(author: Author) -> RunView:
    return run_view_of(author.now, author.opened, author.ending, author.content)


def waiting_for(author: Author) -> WaitingFor:
    waiting = stored_view(author).waiting_for
    assert waiting is not None
    return waiting


class TestRunView:
    @given(authors())
    def test_a_run_looks_the_same_from_memory_and_from_the_store(self, author: Author) -> None:
        assert stored_view(author, now=START + timedelta(days=365 * 60)) == held_view(author)

    def test_a_new_run_is_pending_and_tells_its_definition(self) -> None:
        view = stored_view(begin(UUID(int=9), {"order": "ord_1001"}))

        assert ("pending", "flow", "shop.ship-order", "0.1.0") == (
            view.status, view.kind, view.definition_id, view.version,
        )  # fmt: skip
        assert (UUID(int=9), {"order": "ord_1001"}, START) == (view.id, view.labels, view.created_at)
        assert (None, None, None) == (view.output, view.completed_at, view.waiting_for)

    def test_a_pending_run_under_a_live_lease_is_running(self) -> None:
        author = Author(UUID(int=9), fixed_desk())
        author.cut(LEASE)

        assert "running" == stored_view(author).status
        assert "pending" == stored_view(author, now=START + timedelta(days=365 * 60)).status

    def test_a_suspended_run_shows_the_token_that_it_waits_for(self) -> None:
        author = begin().play("call").play("pause 1", "suspend")

        (token,) = waiting_for(author).tokens

        pausing = author.desk.codec.open(author.written.events[2])
        assert next(iter(author.now.waits)) == token.token_id
        assert ("the confirmation", "shop.request-pickup", "0.1.0", "1", "shop:31") == (
            token.name, token.tool_id, token.tool_version, token.node, token.line,
        )  # fmt: skip
        assert pausing.at == token.created_at
        assert pausing.at + timedelta(hours=2) == token.times_out_at

    def test_a_run_that_goes_on_waits_for_nothing(self) -> None:
        author = begin().play("call", "pause 1", "suspend").play("value")

        assert ("running", None) == (stored_view(author).status, stored_view(author).waiting_for)

    def test_a_token_that_the_run_has_not_reached_is_not_waited_for(self) -> None:
        author = begin().play("call", "timer", "mismatch")

        assert () == waiting_for(author).tokens

    def test_tokens_stand_in_the_order_in_which_they_were_made(self) -> None:
        author = begin().play("call", "call", "pause 2", "pause 1", "suspend")

        assert ["1", "2"] == [token.node for token in waiting_for(author).tokens]

    def test_a_timer_shows_its_operation_and_when_it_is_due(self) -> None:
        author = begin().play("timer", "suspend")

        (other,) = waiting_for(author).other

        assert ("timer", "1", None) == (other.what, other.node, other.details)
        assert other.due_at is not None
        assert other.due_at > START

    def test_a_retry_shows_which_attempt_comes_next(self) -> None:
        author = begin().play("plain call", "retry later 1", "suspend")

        (other,) = waiting_for(author).other

        assert ("retry", "1", {"attempt": "2"}) == (other.what, other.node, other.details)

    def test_a_mismatch_shows_both_sides_and_the_line(self) -> None:
        author = begin().play("mismatch")

        sides = {"recorded": "call shop.a", "requested": "sleep", "line": "shop:40"}
        assert (OtherView(what="code-mismatch", node="2", details=sides),) == waiting_for(author).other

    def test_a_completed_run_shows_its_output_and_when(self) -> None:
        author = begin().play("value").play("completed")

        view = stored_view(author)

        assert ("completed", b'{"shipped":true}') == (view.status, view.output)
        assert view.updated_at == view.completed_at

    def test_a_failed_run_shows_code_message_and_step(self) -> None:
        failure = stored_view(begin().play("failed")).failure

        assert failure is not None
        assert ("handler-error", "no carrier", "1") == (failure.code, failure.message, failure.node)

    def test_without_the_key_the_record_stays_and_the_words_are_gone(self) -> None:
        completed, failed = begin().play("completed"), begin().play("failed")

        failure = stored_view(failed, erased=True).failure

        assert ("completed", None) == (
            stored_view(completed, erased=True).status,
            stored_view(completed, erased=True).output,
        )
        assert failure is not None
        assert ("handler-error", None) == (failure.code, failure.message)

    def test_content_that_was_deleted_shows_as_none_in_both(self) -> None:
        author = begin().play("completed")
        author.written.contents.clear()

        def gone(version: int) -> bytes:
            raise ContentErasedError(version)

        assert None is stored_view(author).output
        assert None is run_view_of(author.now, author.opened, author.ending, gone).output

    def test_content_that_was_changed_is_not_shown(self) -> None:
        author = begin().play("completed")
        version, blob = author.written.contents.popitem()
        author.written.contents[version] = blob[:-1] + bytes([blob[-1] ^ 1])

        with pytest.raises(VerificationError):
            stored_view(author)
