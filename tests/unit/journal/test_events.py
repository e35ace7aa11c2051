"""The events: names that are stored for ever, and their canonical form."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from abeyance.journal.events import EVENT_TYPES, CallFailed, TimerSet, format_moment, parse_moment

TOPICS = """
api-key-created api-key-revoked call-completed call-failed call-paused call-started cancelled
code-matched code-mismatch completed crash-loop crash-loop-retried definition-recorded exported failed
key-added key-retired key-revoked link-revoked link-rotated log-opened project-created project-restored
project-suspended race-decided rerun retry-scheduled started step-completed step-failed suspended
timer-fired timer-set value-recorded wait-token-answered wait-token-completed wait-token-discarded
wait-token-extended wait-token-timed-out workspace-closed workspace-closing workspace-created
workspace-restored workspace-suspended
"""


class TestTopics:
    def test_all_topics_in_full(self) -> None:
        """A topic is stored and signed for ever: adding one changes this list, renaming one is not
        possible."""
        assert TOPICS.split() == sorted(EVENT_TYPES)

    @pytest.mark.parametrize("topic", sorted(EVENT_TYPES))
    def test_fields_stand_in_alphabetical_order(self, topic: str) -> None:
        """So that pydantic's serializer writes keys as the canonical form has them."""
        fields = list(EVENT_TYPES[topic].model_fields)

        assert sorted(fields) == fields


class TestEvent:
    def test_unknown_field_is_refused(self) -> None:
        """Data of a newer shape is never read as if the new field weren't there."""
        with pytest.raises(ValidationError):
            CallFailed.model_validate_json('{"attempt":1,"code":"x","final":true,"op":"1","new":1}')

    def test_true_is_no_attempt(self) -> None:
        """Strict types: a boolean isn't a number."""
        with pytest.raises(ValidationError):
            CallFailed.model_validate_json('{"attempt":true,"code":"x","final":true,"op":"1"}')


class TestMoment:
    def test_there_is_one_text_per_moment(self) -> None:
        """27 characters, also where the microseconds are zero."""
        moment = datetime(2026, 11, 30, 8, tzinfo=UTC)

        assert "2026-11-30T08:00:00.000000Z" == format_moment(moment)
        assert moment == parse_moment("2026-11-30T08:00:00.000000Z")

    @pytest.mark.parametrize(
        "text",
        [
            "2026-11-30T08:00:00Z",
            "2026-11-30T08:00:00.000Z",
            "2026-11-30 08:00:00.000000Z"[:26],
            "2026-11-30T08:00:00.000000+00:00",
        ],
    )
    def test_any_other_text_is_refused(self, text: str) -> None:
        """A second spelling of a time in a signed body would be a second body."""
        with pytest.raises(ValidationError):
            TimerSet.model_validate_json(f'{{"args":"{"0" * 32}","due_at":"{text}","op":"1"}}')
