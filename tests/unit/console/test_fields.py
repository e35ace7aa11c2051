"""From an output model to the fields that a person sees."""

from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from abeyance.console import fields
from abeyance.console.fields import leaves
from abeyance.console.making import form_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    """Where it goes."""

    street: str
    city: str | None = None


class Pickup(BaseModel):
    """The carrier comes."""

    model_config = ConfigDict(title="Yes, we come")

    kind: Literal["pickup"] = "pickup"
    pickup_id: str = Field(alias="pickupId", description="As on the label.")


class DeclinedPickup(BaseModel):
    kind: Literal["declined"] = "declined"
    reason: str = Field(max_length=500)


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def form(shape: Any) -> fields.Field:
    return form_of(TypeAdapter(shape).json_schema(by_alias=True))


def only(shape: Any) -> fields.Field:
    """The field of a member of this type."""
    model = type("Model", (BaseModel,), {"__annotations__": {"it": shape}})
    group = form(model)
    assert isinstance(group, fields.Group)
    ((_, field),) = group.members
    return field


class TestFieldOfAType:
    @pytest.mark.parametrize(
        ("shape", "kind"),
        [
            (str, "text"),
            (date, "text"),
            (datetime, "text"),
            (int, "number"),
            (float, "number"),
            (Decimal, "number"),
            (bool, "pick"),
            (Size, "pick"),
            (Literal["a", "b"], "pick"),
            (Literal["a"], "fixed"),
            (list[str], "lines"),
            (set[int], "lines"),
            (list[Size], "lines"),
            (Address, "group"),
            (int | bool, "either"),
            (Pickup | DeclinedPickup, "either"),
            (dict[str, int], "json"),
            (Any, "json"),
            (list[Address], "json"),
            (list[str | None], "json"),
            (tuple[int, str], "json"),
        ],
        ids=str,
    )
    def test_each_type_has_its_field(self, shape: Any, kind: str) -> None:
        assert kind == only(shape).kind

    @pytest.mark.parametrize("shape", [str, int, Size, Address, Pickup | DeclinedPickup, dict[str, int]])
    def test_what_may_be_null_may_be_left_empty(self, shape: Any) -> None:
        field = only(shape | None)

        assert (only(shape).kind, True) == (field.kind, field.nullable)

    def test_a_recursive_model_is_json_where_it_comes_back(self) -> None:
        assert ["text", "json"] == [leaf.kind for leaf in leaves(form(Tree))]

    def test_a_recursive_item_is_json_too(self) -> None:
        schema = {"$ref": "#/$defs/T", "$defs": {"T": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/T"}]}}}

        assert ["text", "json"] == [leaf.kind for leaf in leaves(form_of(schema))]

    def test_a_value_that_is_fixed_and_may_be_missing_is_asked_for(self) -> None:
        assert "pick" == only(Literal["urgent"] | None).kind

    def test_a_long_text_has_an_area(self) -> None:
        long, short = only(Annotated[str, Field(max_length=500)]), only(Annotated[str, Field(max_length=50)])

        assert isinstance(long, fields.Text)
        assert isinstance(short, fields.Text)
        assert (True, False) == (long.long, short.long)

    def test_what_multiplies_into_too_many_fields_is_json(self) -> None:
        """Ten levels of definitions that use the next one four times: a million fields."""
        levels = {
            f"L{n}": {"type": "object", "properties": {c: {"$ref": f"#/$defs/L{n + 1}"} for c in "abcd"}}
            for n in range(7)
        }
        schema = {"$ref": "#/$defs/L0", "$defs": levels | {"L7": {"type": "string"}}}

        assert "json" == form_of(schema).kind


class TestWords:
    @pytest.mark.parametrize(
        ("name", "label"),
        [
            ("pickupId", "Pickup ID"),
            ("pickup_at", "Pickup at"),
            ("n", "N"),
            ("eMail", "E mail"),
            ("größe", "Größe"),
        ],
    )
    def test_a_name_is_told_in_words(self, name: str, label: str) -> None:
        group = form_of({"type": "object", "properties": {name: {"type": "string", "title": name.title()}}})

        assert isinstance(group, fields.Group)
        assert label == group.members[0][1].label

    def test_an_authors_title_stays_as_it_is(self) -> None:
        assert "The day it COMES" == only(Annotated[date, Field(title="The day it COMES")]).label

    def test_branches_have_the_titles_of_their_models(self) -> None:
        either = form(Annotated[Pickup | DeclinedPickup, Field(discriminator="kind")])

        assert isinstance(either, fields.Either)
        assert ["Yes, we come", "Declined pickup"] == [branch.label for branch in either.branches]
        assert "The carrier comes." == either.branches[0].hint

    def test_branches_of_one_name_are_numbered(self) -> None:
        schema = {"anyOf": [{"type": "string", "maxLength": 3, "format": "date"}, {"type": "string"}]}
        either = form_of(schema)

        assert isinstance(either, fields.Either)
        assert ["A text (1)", "A text (2)"] == [branch.label for branch in either.branches]


class TestNames:
    def test_names_do_not_hang_on_the_order_of_properties(self) -> None:
        """A page made where the tool is loaded is read where only its stored, sorted schema is."""
        schema = Address.model_json_schema()
        turned = {**schema, "properties": dict(reversed(schema["properties"].items()))}

        paths = [{leaf.path for leaf in leaves(form_of(each))} for each in (schema, turned)]

        assert paths[0] == paths[1]

    def test_no_two_fields_have_one_name(self) -> None:
        hostile = {"a/b": {}, "a": {"type": "object", "properties": {"b": {}}}, "~b0": {}, "a~1b": {}, "": {}}
        form = form_of({"type": "object", "properties": hostile})

        paths = [leaf.path for leaf in leaves(form)]

        assert sorted(set(paths)) == sorted(paths)
