"""Cursors of the list of runs."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.errors import InvalidCursorError
from abeyance.projections.runs_list import format_cursor, parse_cursor


class TestCursor:
    @given(st.uuids())
    def test_it_names_the_run_that_the_page_ended_with(self, run_id: UUID) -> None:
        assert run_id == parse_cursor(format_cursor(run_id))

    @pytest.mark.parametrize("cursor", ["", "x", "é", "AAAA", "r" * 23, "=" * 24, "A" * 23, "cg\x00"])
    def test_one_of_somewhere_else_is_refused(self, cursor: str) -> None:
        with pytest.raises(InvalidCursorError):
            parse_cursor(cursor)
