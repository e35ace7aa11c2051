"""The journal as readers see it."""

import json

from hypothesis import given

from abeyance.crypto.sealing import RunKey
from abeyance.journal import events as e
from abeyance.projections.journal_view import journal_entries
from abeyance.projections.views import JournalEntry
from tests.unit.projections.histories import KEY, SIGNER, Author, authors, begin


def entries(author: Author, key: RunKey | None = None) -> list[JournalEntry]:
    desk = author.desk
    return list(journal_entries(author.written.stored, codec=desk.codec, vault=desk.vault, key=key))


class TestJournalEntries:
    def test_every_event_has_its_place_kind_and_operation(self) -> None:
        author = begin().play("call", "pause 1", "suspend").play("answer 1").play("completed")

        assert [
            (1, "started", None),
            (2, "call-started", "1"),
            (3, "call-paused", "1"),
            (4, "suspended", None),
            (5, "wait-token-completed", "1"),
            (6, "completed", None),
        ] == [(entry.sequence, entry.kind, entry.node) for entry in entries(author)]

    def test_a_failure_names_the_step_that_it_happened_in(self) -> None:
        assert "1" == entries(begin().play("failed"))[-1].node

    @given(authors())
    def test_the_payload_is_the_signed_data(self, author: Author) -> None:
        recorded = [author.desk.codec.open(row) for row in author.written.events]

        assert [json.loads(each.event.model_dump_json(exclude_none=True)) for each in recorded] == [
            entry.payload for entry in entries(author)
        ]

    @given(authors())
    def test_every_event_of_a_token_is_placed_at_its_call(self, author: Author) -> None:
        named = [entry for entry in entries(author) if entry.kind.startswith("wait-token-")]

        assert [] == [entry.sequence for entry in named if entry.node is None]

    def test_content_is_shown_where_it_exists_and_was_asked_for(self) -> None:
        author = begin().play("plain call", "complete 1", "value", "completed")

        assert [None] * 5 == [entry.content for entry in entries(author)]
        assert [
            b'{"orderId":"ord_1001"}', b'{"orderId":"ord_1001"}', b'{"pickupId":"p-1"}', None,
            b'{"shipped":true}',
        ] == [entry.content for entry in entries(author, KEY)]  # fmt: skip

    def test_an_entry_names_the_event_s_id_and_its_key(self) -> None:
        author = begin().play("value")

        (_, entry) = entries(author)

        assert (author.now.head.hex(), SIGNER.kid.hex()) == (entry.digest, entry.kid)
        assert e.ValueRecorded.topic == entry.kind
