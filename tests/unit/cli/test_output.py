"""How JSON is laid out and what is escaped."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.cli.output import indented, visible

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class TestIndented:
    @given(VALUES)
    def test_it_lays_out_as_the_standard_library_does(self, value: object) -> None:
        assert json.dumps(value, indent=2) == indented(json.dumps(value))

    @pytest.mark.parametrize("token", ["1.10", "-0", "1e2", "123456789012345678901234567890", "0.1E-7"])
    def test_numbers_stay_as_they_came(self, token: str) -> None:
        assert token in indented(f'{{"n":[{token}]}}')

    def test_depth_costs_no_stack(self) -> None:
        assert indented("[" * 5_000 + "]" * 5_000).endswith("]")


class TestVisible:
    @pytest.mark.parametrize(
        "character", ["\x00", "\x1b", "\n", "\x7f", "\x9b", "\u202e", "\u2028", "\ud800"]
    )
    def test_what_a_terminal_acts_on_is_escaped(self, character: str) -> None:
        assert f"a\\u{ord(character):04x}b" == visible(f"a{character}b")

    def test_everything_else_stays(self) -> None:
        assert "the carrier's “café” 😀 \\" == visible("the carrier's “café” 😀 \\")
