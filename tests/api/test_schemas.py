"""The members of a body, each with its own bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.errors import BadInputError
from abeyance.http.schemas import split_members
from abeyance.journal.canonical import canonicalise, encode

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)  # fmt: skip


class TestSplitMembers:
    @given(members=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values))
    def test_each_value_is_the_bytes_it_was_written_as(self, members: dict[str, object]) -> None:
        expected = {name: encode(value) for name, value in members.items()}

        assert expected == split_members(encode(members))

    def test_number_tokens_are_not_read(self) -> None:
        digits = b"7" * 1_000
        body = canonicalise(b'{"value": {"a": [1.10, -0, ' + digits + b'], "b\\"}": "]}"}, "b": 1.0}')

        members = split_members(body)

        assert b'{"a":[1.10,-0,' + digits + b'],"b\\"}":"]}"}' == members["value"]
        assert b"1.0" == members["b"]

    @pytest.mark.parametrize("body", [b"[]", b"null", b'"{}"', b"0", b"[{}]"])
    def test_what_is_no_object_has_none(self, body: bytes) -> None:
        with pytest.raises(BadInputError):
            split_members(body)

    def test_the_deepest_body_is_split(self) -> None:
        deepest = b"[" * 99 + b"]" * 99

        assert deepest == split_members(canonicalise(b'{"value":' + deepest + b"}"))["value"]
        assert json.loads(deepest)
