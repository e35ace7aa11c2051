"""Arguments as JSON text: one text per value, in every process, by whichever way it is written."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from abeyance.engine.arguments import _encode_any, _encode_flat, encode_arguments, wire_input
from abeyance.errors import InvalidOperationError
from abeyance.journal.canonical import canonicalise
from tests.unit.engine.programs import tool

texts = st.text()
simple = st.none() | st.booleans() | st.integers() | texts
anything = st.recursive(
    simple | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


class TestEncodeArguments:
    @given(st.lists(simple).map(tuple) | st.dictionaries(texts, simple))
    def test_the_fast_way_writes_what_the_other_writes(self, value: Any) -> None:
        assert _encode_any(value) == _encode_flat(value)

    @given(anything)
    def test_json_is_written_canonically_and_reads_back(self, value: Any) -> None:
        text = encode_arguments(value, "test")

        assert canonicalise(text) == text
        assert value == json.loads(text)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"b": 1, "a": {"d", "c"}}, b'{"a":["c","d"],"b":1}'),
            ({UUID(int=1): 1}, b'{"00000000-0000-0000-0000-000000000001":1}'),
            (b"raw", b'"raw"'),
            ((1, (2,)), b"[1,[2]]"),
        ],
    )
    def test_what_python_has_beside_json_has_one_form(self, value: Any, text: bytes) -> None:
        assert text == encode_arguments(value, "test")

    @pytest.mark.parametrize(
        "value", [object(), float("nan"), [float("inf")], "\ud800", {(1, 2): 3, "a": object()}]
    )
    def test_anything_else_is_refused_without_its_value(self, value: Any) -> None:
        with pytest.raises(
            InvalidOperationError, match=r"^shop\.pay takes arguments that JSON can hold: \w+$"
        ):
            encode_arguments(value, "shop.pay")

    def test_what_no_content_could_hold_is_refused(self) -> None:
        deep: Any = []
        for _ in range(101):
            deep = [deep]
        circle: list[Any] = []
        circle.append(circle)

        for value in (deep, circle, int("9" * 1_001)):
            with pytest.raises(InvalidOperationError):
                encode_arguments(value, "test")


class TestWireInput:
    def test_defaults_and_wire_names_are_of_the_tools_model(self) -> None:
        class Order(BaseModel):
            model_config = {"alias_generator": str.upper}
            number: int
            note: str = "none"

        order = tool("shop.order", takes=Order)

        assert b'{"NOTE":"none","NUMBER":7}' == wire_input(order, b'{"number":7}')
        assert b'{"number":"x"}' == wire_input(order, b'{"number":"x"}')
