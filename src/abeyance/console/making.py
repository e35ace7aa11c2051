"""From the JSON Schema of an answer to the fields of a form.

What can't be a form (free objects, arrays of objects, recursion) becomes a field for JSON. The paths of
fields don't depend on the order of properties, so a page that one process made can be read by another that
has the schema in another order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from abeyance.console.fields import (
    Either,
    Field,
    Fixed,
    Group,
    Json,
    Lines,
    Number,
    Option,
    Pick,
    Schema,
    Text,
)
from abeyance.console.words import described, json_of, label_of, shown, title_of

LONG_TEXT = 200
"""A text that may have more characters than this gets an area."""
MOST_FIELDS = 1_000
"""More are no form for a person. Definitions that use one another multiply."""
_DEEPEST = 8


class _TooManyError(Exception):
    """The form has more fields than `MOST_FIELDS`."""


def form_of(schema: Schema) -> Field:
    """The form for an answer that `schema` describes; one for JSON if it would have too many fields."""
    try:
        return _Maker(schema).make(schema, _Place("", "", "Answer"), frozenset())
    except _TooManyError:
        return json_form_of(schema)


def json_form_of(schema: Schema) -> Json:
    """The form for an answer that is written as JSON."""
    return Json(path="", pointer="", label="Answer as JSON", hint=described(schema), schema=schema)


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    pointer: str
    label: str
    required: bool = True

    def member(self, name: str, label: str, *, required: bool) -> "_Place":
        step = "/" + name.replace("~", "~0").replace("/", "~1")
        return _Place(self.path + step, self.pointer + step, label, required)

    def branch(self, number: int, label: str) -> "_Place":
        return _Place(f"{self.path}/~b{number}", self.pointer, label)


_NULL: Final = {"type": "null"}
_NUMERIC: Final = frozenset({"number", "integer"})


class _Maker:
    def __init__(self, root: Schema) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs", {})
        self._made = 0

    def make(self, schema: Schema, place: _Place, seen: frozenset[str]) -> Field:
        self._made += 1
        if self._made > MOST_FIELDS:
            raise _TooManyError
        resolved, seen = self._resolve(schema, seen)
        branches, nullable = self._branches(resolved)
        common: dict[str, Any] = {
            "path": place.path,
            "pointer": place.pointer,
            "label": place.label,
            "hint": described(resolved),
            "required": place.required,
            "nullable": nullable,
        }
        if seen is _TOO_DEEP or len(seen) > _DEEPEST:
            return Json(schema=self._whole(resolved), **common)
        if len(branches) > 1 and _is_number_or_text(branches):
            return Number(or_text=True, schema=self._whole(resolved), **common)
        if len(branches) > 1:
            return self._either(resolved, branches, place, seen, common)
        if branches:
            inner = self.make(branches[0], place, seen)
            if nullable and isinstance(inner, Fixed):
                inner = _choice_of(inner)
            return replace(inner, nullable=nullable or inner.nullable, hint=common["hint"] or inner.hint)
        return self._single(resolved, place, seen, common)

    def _resolve(self, schema: Schema, seen: frozenset[str]) -> tuple[Schema, frozenset[str]]:
        """The schema with its reference, and an `allOf` of one, put in."""
        while True:
            if isinstance(schema.get("$ref"), str):
                name = schema["$ref"]
                if name in seen or not name.startswith("#/$defs/"):
                    return schema, _TOO_DEEP
                target = self._definitions.get(name.removeprefix("#/$defs/"), {})
                seen, rest = seen | {name}, {key: part for key, part in schema.items() if key != "$ref"}
            elif len(schema.get("allOf", ())) == 1:
                target, rest = schema["allOf"][0], {k: part for k, part in schema.items() if k != "allOf"}
            else:
                return schema, seen
            schema = {**target, **rest}

    def _branches(self, schema: Schema) -> tuple[list[Schema], bool]:
        """The shapes to choose from, `null` apart, and whether that is one; none if there is no choice."""
        all_of_them = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        found = [each for each in all_of_them if self._resolve(each, frozenset())[0] != _NULL]
        kept = {key: part for key, part in schema.items() if key in _ABOUT}
        if len(found) == 1:
            found = [{**kept, **found[0]}]
        return found, len(found) < len(all_of_them) and _NULL in all_of_them

    def _either(
        self,
        schema: Schema,
        branches: list[Schema],
        place: _Place,
        seen: frozenset[str],
        common: dict[str, Any],
    ) -> Field:
        made = []
        for number, branch in enumerate(branches):
            resolved, _ = self._resolve(branch, frozenset())
            label = title_of(resolved) or _KINDS.get(str(resolved.get("type")), "Something else")
            made.append(self.make(branch, place.branch(number, label), seen))
        return Either(branches=_distinct(made), schema=self._whole(schema), **common)

    def _single(self, schema: Schema, place: _Place, seen: frozenset[str], common: dict[str, Any]) -> Field:
        kind, nullable = _type_of(schema)
        common["nullable"] = common["nullable"] or nullable
        common["schema"] = self._whole(schema)
        if "const" in schema and (common["required"] or schema.get("default") == schema["const"]):
            return Fixed(value=json_of(schema["const"]), **common)
        if "const" in schema:
            return _choice_of(Fixed(value=json_of(schema["const"]), **common))
        if "enum" in schema:
            values = [each for each in schema["enum"] if each is not None]
            common["nullable"] = len(values) < len(schema["enum"])
            return Pick(options=tuple(Option(value=json_of(v), label=shown(v)) for v in values), **common)
        if kind == "string":
            long = schema.get("maxLength", 0) > LONG_TEXT or schema.get("format") in _LONG_FORMATS
            return Text(format=str(schema.get("format", "")), long=long, **common)
        if kind in _NUMERIC:
            return Number(whole=kind == "integer", **common)
        if kind == "boolean":
            return Pick(options=YES_NO, **common)
        if kind == "null":
            return Fixed(value="null", **common)
        if kind == "array":
            return self._lines(schema, place, seen, common)
        if kind == "object" and schema.get("properties") and "patternProperties" not in schema:
            return self._group(schema, place, seen, common)
        return Json(**common)

    def _lines(self, schema: Schema, place: _Place, seen: frozenset[str], common: dict[str, Any]) -> Field:
        items = schema.get("items")
        if not isinstance(items, Mapping) or "prefixItems" in schema:
            return Json(**common)
        item = self.make(items, place, seen)
        if not isinstance(item, Text | Number | Pick) or item.nullable:
            return Json(**common)
        return Lines(item=item, **common)

    def _group(self, schema: Schema, place: _Place, seen: frozenset[str], common: dict[str, Any]) -> Field:
        required = schema.get("required", ())
        members = tuple(
            (
                name,
                self.make(part, place.member(name, label_of(name, part), required=name in required), seen),
            )
            for name, part in schema["properties"].items()
        )
        return Group(members=members, **common)

    def _whole(self, schema: Schema) -> Schema:
        return {**schema, "$defs": self._definitions} if self._definitions else schema


_COMMON: Final = ("path", "pointer", "label", "hint", "required", "nullable", "schema")
_ABOUT: Final = ("title", "description", "default", "examples")
_TOO_DEEP: Final = frozenset({""})
_LONG_FORMATS: Final = frozenset({"textarea", "multiline"})
YES_NO: Final = (Option(value="true", label="Yes"), Option(value="false", label="No"))
_KINDS: Final = {
    "string": "A text",
    "number": "A number",
    "integer": "A whole number",
    "boolean": "Yes or no",
    "array": "A list",
    "object": "Several values",
}


def _type_of(schema: Schema) -> tuple[str, bool]:
    """The one type beside `null`, empty if there are several or none, and whether `null` is there."""
    named = schema.get("type", "")
    if isinstance(named, str):
        return named, False
    others = [each for each in named if each != "null"]
    return others[0] if len(others) == 1 else "", "null" in named


def _choice_of(fixed: Fixed) -> Pick:
    """The one value that may be given or left out."""
    only = Option(value=fixed.value, label=shown(fixed.schema["const"]))
    kept = {each: getattr(fixed, each) for each in _COMMON}
    return Pick(options=(only,), **kept)


def _is_number_or_text(branches: list[Schema]) -> bool:
    """How pydantic describes a `Decimal`: what is a number is taken for one, anything else for a text."""
    return sorted(str(branch.get("type")) for branch in branches) in (
        ["number", "string"],
        ["integer", "string"],
    ) and not any(key in branch for branch in branches for key in ("enum", "const", "format"))


def _distinct(branches: list[Field]) -> tuple[Field, ...]:
    """The branches, those that have one label numbered."""
    labels = [branch.label for branch in branches]
    return tuple(
        replace(branch, label=f"{branch.label} ({number})") if labels.count(branch.label) > 1 else branch
        for number, branch in enumerate(branches, 1)
    )
