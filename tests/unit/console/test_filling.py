"""What comes of a form that is filled in by halves, and what is told about it."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from abeyance.console.errors import Wrong, rules_of
from abeyance.console.filling import fill
from abeyance.console.making import form_of, json_form_of
from abeyance.console.messages import says
from abeyance.engine.schemas import SchemaCheck
from abeyance.errors import Issue


class Address(BaseModel):
    street: str
    city: str | None = None


class Order(BaseModel):
    id: str
    count: int = Field(default=1, ge=1)
    at: datetime | None = None
    to: Address | None = None
    tags: list[str] = []
    must: list[int]
    note: str | None


class Yes(BaseModel):
    kind: Literal["yes"]
    code: str = Field(pattern="^[A-Z]+$")


class No(BaseModel):
    kind: Literal["no"]
    code: int


ORDER = TypeAdapter(Order).json_schema()
REPLY = TypeAdapter(Annotated[Yes | No, Field(discriminator="kind")]).json_schema()


def rules(schema: dict[str, Any], given: dict[str, str]) -> dict[str, Wrong]:
    form = form_of(schema)
    filled = fill(form, given)
    return rules_of(form, filled, SchemaCheck(schema).check_canonical(filled.text.encode()))


class TestLeftEmpty:
    def test_what_may_be_left_out_is(self) -> None:
        filled = fill(form_of(ORDER), {"v/id": "o1"})

        assert '{"id":"o1","must":[],"note":null}' == filled.text
        assert {} == filled.problems

    def test_what_must_be_there_is_a_problem(self) -> None:
        assert {"/id": "required"} == fill(form_of(ORDER), {}).problems

    def test_white_space_fills_nothing(self) -> None:
        assert {"/id": "required"} == fill(form_of(ORDER), {"v/id": " \r\n\t", "v/to/city": " "}).problems

    def test_an_object_that_was_begun_must_be_whole(self) -> None:
        assert {"/to/street": "required"} == fill(form_of(ORDER), {"v/id": "o", "v/to/city": "Bern"}).problems

    def test_a_choice_must_be_made(self) -> None:
        assert {"": "choose"} == fill(form_of(REPLY), {"v/~b0/code": "A"}).problems

    @pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "integer"}, {}])
    def test_an_answer_that_is_one_value_must_be_there(self, schema: dict[str, Any]) -> None:
        assert {"": "required"} == fill(form_of(schema), {}).problems


class TestChosen:
    def test_only_the_chosen_branch_is_sent(self) -> None:
        filled = fill(form_of(REPLY), {"c": "1", "v/~b0/code": "A", "v/~b1/code": "7"})

        assert '{"kind":"no","code":7}' == filled.text

    @pytest.mark.parametrize("chosen", ["2", "-1", "x", "٠", "01"])
    def test_a_branch_that_is_not_there_is_none(self, chosen: str) -> None:
        assert {"": "choose"} == fill(form_of(REPLY), {"c": chosen}).problems


class TestChoiceThatMayBeLeftOut:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"reply": {"anyOf": [*REPLY["oneOf"], {"type": "null"}]}},
        "$defs": REPLY["$defs"],
    }

    @pytest.mark.parametrize("given", [{}, {"c/reply": ""}, {"c/reply": "none"}])
    def test_it_is(self, given: dict[str, str]) -> None:
        filled = fill(form_of(self.SCHEMA), given)

        assert ("{}", {}) == (filled.text, filled.problems)

    def test_what_was_typed_is_not_dropped_in_silence(self) -> None:
        """A browser that shows all branches lets a person type into one that isn't chosen."""
        typed = {"v/reply/~b1/code": "7"}

        assert {"/reply": "choose"} == fill(form_of(self.SCHEMA), typed).problems
        assert {} == fill(form_of(self.SCHEMA), {**typed, "c/reply": "none"}).problems


class TestMoments:
    @pytest.mark.parametrize(
        ("typed", "offset", "sent"),
        [
            ("2026-10-25T09:00", "+00:00", "2026-10-25T09:00:00Z"),
            ("2026-10-25T09:00:30.5", "-03:30", "2026-10-25T09:00:30.5-03:30"),
            ("2026-10-25 09:00", "+02:00", "2026-10-25T09:00:00+02:00"),
            ("2026-10-25T09:00:00+05:00", "", "2026-10-25T09:00:00+05:00"),
        ],
    )
    def test_a_time_is_sent_with_its_offset(self, typed: str, offset: str, sent: str) -> None:
        filled = fill(form_of(ORDER), {"v/id": "o", "v/at": typed, "z/at": offset})

        assert f'"at":"{sent}"' in filled.text
        assert {} == filled.problems

    @pytest.mark.parametrize("offset", ["", "CET", "+99:00"])
    def test_no_offset_is_guessed(self, offset: str) -> None:
        given = {"v/id": "o", "v/at": "2026-10-25T09:00", "z/at": offset}

        assert {"/at": "zone"} == fill(form_of(ORDER), given).problems


class TestRules:
    def test_a_wrong_value_is_told_at_its_field(self) -> None:
        assert {"/count": Wrong("minimum")} == rules(ORDER, {"v/id": "o", "v/count": "0"})

    def test_a_wrong_line_is_told_by_its_number(self) -> None:
        schema = {"type": "array", "items": {"type": "integer", "maximum": 3}}

        assert {"": Wrong("maximum", 3)} == rules(schema, {"v": "1\n2\n4"})

    def test_of_a_choice_only_the_chosen_branch_is_told(self) -> None:
        """The schema as a whole has something against both."""
        assert {"/~b0/code": Wrong("pattern")} == rules(REPLY, {"c": "0", "v/~b0/code": "a"})

    def test_what_only_the_model_refuses_is_told_at_its_field_or_of_the_whole(self) -> None:
        form = form_of(ORDER)
        filled = fill(form, {"v/id": "o", "v/tags": "a\nb"})

        assert {"/tags": Wrong("value_error", 2)} == rules_of(form, filled, [Issue("/tags/1", "value_error")])
        assert {"": Wrong("value_error")} == rules_of(form, filled, [Issue("", "value_error")])

    def test_of_json_the_places_are_told(self) -> None:
        form = json_form_of(ORDER)
        filled = fill(form, {"v": '{"id": 1, "must": ["a"]}'})

        wrong = rules_of(form, filled, [])[""]

        assert {"/id: type", "/must/0: type", "/note: required"} == set(wrong.places.split("; "))

    def test_words_name_what_is_asked_for(self) -> None:
        order = form_of(ORDER)
        count = next(member for name, member in order.members if name == "count")  # type: ignore[attr-defined]

        assert "Write a whole number, such as 12." == says(count, "type")
        assert "Write 1 or more." == says(count, "minimum")
        assert "This isn't accepted." == says(count, "something-new")
