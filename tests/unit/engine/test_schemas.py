"""Values against JSON Schema as other systems read it, and against the model's own validation."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from abeyance.engine.schemas import (
    MAX_ISSUES,
    SchemaCheck,
    check_with_model,
    read_model,
    schema_digest,
    schema_of,
)
from abeyance.errors import InvalidDefinitionError, Issue
from abeyance.journal.canonical import canonicalise, encode


class Colour(IntEnum):
    RED = 1


class Pickup(BaseModel):
    pickup_id: str = Field(alias="pickupId")
    pickup_at: datetime = Field(alias="pickupAt")


class Leaf(BaseModel):
    value: int


class Plus(BaseModel):
    left: "Expression"
    right: "Expression"


class Times(BaseModel):
    left: "Expression"
    right: "Expression"


Expression = Leaf | Plus | Times


class TaggedPlus(BaseModel):
    kind: Literal["plus"]
    left: "TaggedExpression"


class TaggedTimes(BaseModel):
    kind: Literal["times"]
    left: "TaggedExpression"


TaggedExpression = Annotated[TaggedPlus | TaggedTimes, Field(discriminator="kind")] | int


class Tree(BaseModel):
    children: "list[Tree] | Tree | int | None" = None


def both(shape: TypeAdapter[Any] | type[Any], sent: bytes) -> list[Issue]:
    """The issues of the one check, and if it has none, of the other."""
    canonical = canonicalise(sent)
    return SchemaCheck(schema_of(shape)).check_canonical(canonical) or check_with_model(shape, canonical)


class TestSchemaOfAModel:
    def test_names_are_those_on_the_wire(self) -> None:
        schema = schema_of(Pickup)

        assert ["pickupId", "pickupAt"] == schema["required"]
        assert {"format": "date-time", "title": "Pickupat", "type": "string"} == schema["properties"][
            "pickupAt"
        ]

    def test_it_is_the_schema_of_what_is_taken_not_of_what_is_written(self) -> None:
        assert ["number", "string"] == [one["type"] for one in schema_of(TypeAdapter(Decimal))["anyOf"]]

    def test_the_digest_is_that_of_the_canonical_bytes(self) -> None:
        # printf '{"type":"string"}' | sha256sum
        digest = "00404e686415370f1711c4d7acfa2905444d3cf23cef2e10c47d445ebe690f96"

        assert digest == schema_digest({"type": "string"})
        assert schema_digest({"a": 1, "b": 2}) == schema_digest({"b": 2, "a": 1})


class TestSchemaCheck:
    @pytest.mark.case("D12")
    @pytest.mark.parametrize(
        ("value", "fits"),
        [
            ("ord_1", True),
            ("ord_1\n", False),
            ("ord_\u0661\u0662", False),
            ("ord_1\u2028", False),
            ("xord_1", False),
        ],
    )
    def test_patterns_are_those_of_ecma_262(self, value: str, fits: bool) -> None:
        check = SchemaCheck({"type": "string", "pattern": r"^ord_\d+$"})

        assert ([] if fits else [Issue("", "pattern")]) == check.check(value)

    @pytest.mark.case("D12")
    @pytest.mark.parametrize(
        ("pattern", "value", "fits"),
        [
            (r"^\w$", "é", False),
            (r"^\W$", "é", True),
            (r"^[^\d]$", "\u0661", True),
            (r"^\s$", "\ufeff", True),
            (r"^\s$", "\x85", False),
            (r"^.$", "\n", False),
            (r"^.$", "\u2028", False),
            (r"^.$", "😀", True),
            (r"^(?=.*\d).{3,}$", "ab1", True),
            (r"^(?=.*\d).{3,}$", "abc", False),
            (r"^(a|b)\1$", "ab", False),
        ],
    )
    def test_usual_classes_and_lookaround_work(self, pattern: str, value: str, fits: bool) -> None:
        assert fits == (not SchemaCheck({"pattern": pattern}).check(value))

    @pytest.mark.case("D12")
    @pytest.mark.parametrize(
        ("pattern", "value"),
        [
            (r"^(a+)+$", "a" * 40 + "!"),
            (r"^(a+)+$", "a" * 1_000_000 + "!"),
            (r"^(?:(?=a)a|(?=a)a)+b$", "a" * 1_000),
            (r"^(?:(a)(?!x)|(a)(?!x))+$", "a" * 1_000 + "!"),
        ],
        ids=["nested", "nested, long", "lookahead", "negative lookahead"],
    )
    def test_a_hostile_pattern_ends(self, pattern: str, value: str) -> None:
        # Backtracking would take longer than the faulthandler limit allows.
        assert [Issue("", "pattern")] == SchemaCheck({"pattern": pattern}).check(value)

    @pytest.mark.parametrize(
        ("schema", "sent", "rule"),
        [
            ({"type": "integer"}, "1.0", None),
            ({"type": "integer"}, "1e3", None),
            ({"type": "integer"}, "1.5", "type"),
            ({"type": "integer"}, "1.000000000000000000005", "type"),
            ({"type": "integer"}, "true", "type"),
            ({"type": "integer"}, "9" * 1_000, None),
            ({"type": "integer"}, "1e-400", "type"),
            ({"type": "integer"}, "0e-99999999999999999999", None),
            ({"type": "integer"}, '"1"', "type"),
            ({"type": "number"}, "false", "type"),
            ({"maximum": 10}, "9" * 1_000, "maximum"),
            ({"maximum": 9007199254740992}, "9007199254740993", "maximum"),
            ({"maximum": 1}, "1.000000000000000000005", "maximum"),
            ({"const": 9007199254740993}, "9007199254740992", "const"),
            ({"const": 0.1}, "0.10", None),
            ({"multipleOf": 0.01}, "19.99", None),
            ({"enum": [1]}, "true", "enum"),
            ({"uniqueItems": True}, "[1,1.0]", "uniqueItems"),
            ({"uniqueItems": True}, "[1,true]", None),
            ({"const": "a\0b"}, '"a\\u0000b"', None),
        ],
    )
    def test_numbers_and_types_are_those_of_json_schema(
        self, schema: Any, sent: str, rule: str | None
    ) -> None:
        issues = SchemaCheck(schema).check_canonical(canonicalise(sent.encode()))

        assert rule == (issues[0].rule if issues else None)

    @pytest.mark.parametrize(
        ("name", "fitting", "other"),
        [
            ("date-time", "2026-10-25T09:00:00Z", "2026-10-25T09:00:00"),
            ("date", "2026-10-25", "2026-02-30"),
            ("time", "09:00:00Z", "09:00:00"),
            ("duration", "PT1H", "1h"),
            ("uuid", "6f1c2a9e-0b7d-4a51-9c3e-2d8f6a1b4e07", "6f1c2a9e"),
            ("email", "a@b.example", "a"),
            ("uri", "https://a.example/", "a b"),
            ("ipv4", "192.0.2.1", "192.0.2.256"),
        ],
    )
    def test_formats_are_asserted(self, name: str, fitting: str, other: str) -> None:
        check = SchemaCheck({"type": "string", "format": name})

        assert [] == check.check(fitting)
        assert [Issue("", "format")] == check.check(other)

    def test_issues_say_where_and_which_rule_and_no_value(self) -> None:
        check = SchemaCheck(
            {
                "properties": {"a/b~c": {"items": {"type": "integer"}}, "at": {"format": "date-time"}},
                "required": ["at", "z"],
                "additionalProperties": False,
            }
        )

        assert {
            Issue("/a~1b~0c/1", "type"),
            Issue("/at", "format"),
            Issue("/z", "required"),
            Issue("", "additionalProperties"),
        } == set(check.check({"a/b~c": [1, "secret"], "at": "secret", "secret": 1}))

    @pytest.mark.parametrize("name", ["pickupAt", "a~b/c", 'say "so"', "\\", "zwölf", "a\nb", "0"])
    def test_a_missing_member_is_named_where_it_would_be(self, name: str) -> None:
        check = SchemaCheck({"properties": {"one": {"required": [name]}}})

        escaped = name.replace("~", "~0").replace("/", "~1")
        assert [Issue(f"/one/{escaped}", "required")] == check.check({"one": {}})

    def test_the_model_names_a_missing_member_as_the_schema_does(self) -> None:
        class Order(BaseModel):
            pickups: list[Pickup]

        missing = b'{"pickups":[{"pickupAt":"2026-10-25T09:00:00Z"}]}'

        assert [Issue("/pickups/0/pickupId", "required")] == check_with_model(Order, missing)
        assert [Issue("/pickups/0/pickupId", "required")] == SchemaCheck(schema_of(Order)).check_canonical(
            missing
        )

    def test_an_issue_in_an_optional_part_is_found_where_it_is(self) -> None:
        class Order(BaseModel):
            pickup: Pickup | None = None

        issues = SchemaCheck(schema_of(Order)).check(
            {"pickup": {"pickupId": 7, "pickupAt": "2026-10-25T09:00:00Z"}}
        )

        assert Issue("/pickup/pickupId", "type") == issues[0]

    def test_issues_are_bounded_in_number_and_length(self) -> None:
        check = SchemaCheck({"additionalProperties": {"type": "string"}})
        many = check.check({str(number): number for number in range(50_000)})
        long = check.check({"k" * 100_000: 1})

        assert MAX_ISSUES == len(many)
        assert [Issue("", "type")] == long

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "nonsense"},
            {"pattern": "("},
            {"$ref": "#/$defs/missing"},
            {"$ref": "https://schemas.example/a"},
            {"$ref": "file:///etc/hostname"},
        ],
    )
    def test_what_is_no_schema_or_lies_outside_is_refused(self, schema: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"."):
            SchemaCheck(schema)

    def test_unions_that_hold_themselves_are_decided_in_bounded_time(self) -> None:
        check = SchemaCheck(TypeAdapter(TaggedExpression).json_schema())
        deep: dict[str, Any] = {"kind": "plus", "left": 1}
        wrong: dict[str, Any] = {"kind": "plus", "left": "x"}
        for _ in range(95):
            deep, wrong = {"kind": "times", "left": deep}, {"kind": "times", "left": wrong}

        assert [] == check.check(deep)
        assert [Issue("", "anyOf")] == check.check(wrong)


class TestAmbiguousUnions:
    def test_a_recursive_union_of_look_alikes_is_refused(self) -> None:
        with pytest.raises(InvalidDefinitionError, match="discriminator"):
            schema_of(Plus)

    @pytest.mark.parametrize("shape", [TypeAdapter(TaggedExpression), Tree, TypeAdapter(Pickup | Leaf)])
    def test_unions_that_can_be_told_apart_are_taken(self, shape: Any) -> None:
        assert schema_of(shape)


class TestTheModelItself:
    @pytest.mark.parametrize(
        ("shape", "sent", "value"),
        [
            (int, "1.0", 1),
            (int, "-1.50e1", -15),
            (int, "1e3", 1_000),
            (int, "100e-2", 1),
            (int, "-0.0", 0),
            (int, "0e99999999999", 0),
            (int, "1e22", 10**22),
            (int, "9" * 1_000, 10**1_000 - 1),
            (float, "1", 1.0),
            (bool | int, "1.0", 1),
            (int | str, "1.0", 1),
            (Colour, "1", Colour.RED),
            (Decimal, "1.10", Decimal("1.1")),
            (timedelta, '"PT1H"', timedelta(hours=1)),
            (UUID, '"6f1c2a9e-0b7d-4a51-9c3e-2d8f6a1b4e07"', UUID("6f1c2a9e-0b7d-4a51-9c3e-2d8f6a1b4e07")),
            (set[int], "[1,2]", {1, 2}),
            (dict[int, str], '{"1":"a"}', {1: "a"}),
            (tuple[int, str], '[1.0,"1.0"]', (1, "1.0")),
        ],
    )
    def test_what_fits_both_is_read(self, shape: Any, sent: str, value: object) -> None:
        adapter = TypeAdapter[Any](shape)
        read = read_model(adapter, canonicalise(sent.encode()))

        assert [] == both(adapter, sent.encode())
        assert (value, type(value)) == (read, type(read))

    @pytest.mark.parametrize(
        ("shape", "sent"),
        [
            (int, "1.5"),
            (int, '"1"'),
            (int, "true"),
            (str, "1"),
            (bool, "1"),
            (datetime, "1700000000"),
            (float, '"1"'),
        ],
    )
    def test_nothing_is_converted(self, shape: Any, sent: str) -> None:
        adapter = TypeAdapter[Any](shape)

        assert both(adapter, sent.encode())
        assert check_with_model(adapter, sent.encode())

    def test_a_whole_number_counts_in_a_strict_model_too(self) -> None:
        class Strict(BaseModel):
            model_config = ConfigDict(strict=True)
            count: int
            ratio: float
            text: str

        sent = rb'{"count":3.0,"ratio":2,"text":"\"1.0,2e3"}'

        assert Strict(count=3, ratio=2.0, text='"1.0,2e3') == read_model(Strict, canonicalise(sent))

    def test_a_validator_of_the_model_has_its_say(self) -> None:
        class Even(BaseModel):
            numbers: list[int]

            @field_validator("numbers")
            @classmethod
            def even(cls, numbers: list[int]) -> list[int]:
                if any(number % 2 for number in numbers):
                    raise ValueError(f"not even: {numbers}")
                return numbers

        assert [] == both(Even, b'{"numbers":[2]}')
        assert [Issue("/numbers", "value_error")] == both(Even, b'{"numbers":[2,3]}')

    @pytest.mark.parametrize("fail", [KeyError, ZeroDivisionError, RecursionError])
    def test_a_validator_that_crashes_refuses_the_value(self, fail: type[Exception]) -> None:
        class Broken(BaseModel):
            number: int

            @field_validator("number")
            @classmethod
            def crash(cls, number: int) -> int:
                raise fail("secret")

        assert [Issue("", fail.__name__)] == both(Broken, b'{"number":1}')

    def test_paths_name_places_in_the_value_not_types(self) -> None:
        def positive(number: int) -> int:
            assert number > 0
            return number

        class Item(BaseModel):
            count: Annotated[int, Field(json_schema_extra={"type": "integer"})] | str

            @field_validator("count")
            @classmethod
            def check(cls, count: int | str) -> int | str:
                return positive(count) if isinstance(count, int) else count

        issues = both(TypeAdapter(list[Item | Leaf]), b'[{"value":1},{"count":-1}]')

        assert [Issue("/1/count", "assertion_error"), Issue("/1/value", "required")] == issues


class TestRewritingWholeNumbers:
    @given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
    def test_a_number_reads_as_an_integer_exactly_if_it_is_one(self, number: Decimal) -> None:
        token = str(number).encode()
        whole = number == number.to_integral_value()

        assert whole == (not check_with_model(int, token))
        if whole:
            assert int(number) == read_model(int, token)

    @given(st.recursive(st.integers() | st.text(st.characters(exclude_categories=["Cs"])), st.lists))
    def test_values_without_points_are_read_as_they_are(self, value: object) -> None:
        accept: Callable[[Any], list[Issue]] = SchemaCheck(schema_of(TypeAdapter(Any))).check

        assert [] == accept(value)
        assert value == read_model(TypeAdapter(Any), encode(value))
