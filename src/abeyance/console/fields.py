"""From the JSON Schema of an answer to the fields of a form.

A field knows its place twice: `path` is its name in the form, the property names down to it, with `/~b0` for
a branch of a choice; `pointer` is where its value stands in the answer (RFC 6901). What can't be a form
(free objects, arrays of objects, recursion) becomes a field for JSON. Names don't depend on the order of
properties, so a page that one process made can be read by another that has the schema in another order.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from abeyance.journal.canonical import encode

Schema = Mapping[str, Any]

LONG_TEXT = 200
"""A text that may have more characters than this gets an area."""
MOST_FIELDS = 1_000
"""More are no form for a person. Definitions that use one another multiply."""
_DEEPEST = 8


class _TooManyError(Exception):
    """The form has more fields than `MOST_FIELDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing to fill in. `required`: it may not be left out; `nullable`: left empty it is `null` then.

    `schema` is that of a value, `null` apart, whole with its `$defs`.
    """

    kind: ClassVar[str] = ""

    path: str
    pointer: str
    label: str
    hint: str = ""
    required: bool = True
    nullable: bool = False
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    """A text; `format` as in JSON Schema, empty for any."""

    kind: ClassVar[str] = "text"
    format: str = ""
    long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Field):
    """A number, taken as it is written. `or_text`: what isn't one is a text."""

    kind: ClassVar[str] = "number"
    whole: bool = False
    or_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One value of a choice: its JSON and its name."""

    value: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick(Field):
    """One of some values; yes or no is one."""

    kind: ClassVar[str] = "pick"
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(Field):
    """A value that can't be otherwise: nobody is asked for it."""

    kind: ClassVar[str] = "fixed"
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Field):
    """A list of texts, numbers or choices, one a line."""

    kind: ClassVar[str] = "lines"
    item: Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Json(Field):
    """Any JSON."""

    kind: ClassVar[str] = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Field):
    """An object: its members by their names in the answer."""

    kind: ClassVar[str] = "group"
    members: tuple[tuple[str, Field], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Either(Field):
    """One of several shapes, chosen by a person."""

    kind: ClassVar[str] = "either"
    branches: tuple[Field, ...]


def form_of(schema: Schema) -> Field:
    """The form for an answer that `schema` describes; one for JSON if it would have too many fields."""
    try:
        return _Maker(schema).make(schema, _Place("", "", "Answer"), frozenset())
    except _TooManyError:
        return json_form_of(schema)


def json_form_of(schema: Schema) -> Json:
    """The form for an answer that is written as JSON."""
    return Json(path="", pointer="", label="Answer as JSON", hint=_described(schema), schema=schema)


def leaves(field: Field) -> Iterator[Field]:
    """The fields that hold a value of their own, those of all branches included."""
    if isinstance(field, Group):
        for _, member in field.members:
            yield from leaves(member)
    elif isinstance(field, Either):
        for branch in field.branches:
            yield from leaves(branch)
    else:
        yield field


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
            "hint": _described(resolved),
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
            label = _title(resolved) or _KINDS.get(str(resolved.get("type")), "Something else")
            made.append(self.make(branch, place.branch(number, label), seen))
        return Either(branches=_distinct(made), schema=self._whole(schema), **common)

    def _single(self, schema: Schema, place: _Place, seen: frozenset[str], common: dict[str, Any]) -> Field:
        kind, nullable = _type_of(schema)
        common["nullable"] = common["nullable"] or nullable
        common["schema"] = self._whole(schema)
        if "const" in schema and (common["required"] or schema.get("default") == schema["const"]):
            return Fixed(value=_json(schema["const"]), **common)
        if "const" in schema:
            return _choice_of(Fixed(value=_json(schema["const"]), **common))
        if "enum" in schema:
            values = [each for each in schema["enum"] if each is not None]
            common["nullable"] = len(values) < len(schema["enum"])
            return Pick(options=tuple(Option(value=_json(v), label=_shown(v)) for v in values), **common)
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
                self.make(part, place.member(name, self._label(name, part), required=name in required), seen),
            )
            for name, part in schema["properties"].items()
        )
        return Group(members=members, **common)

    def _label(self, name: str, schema: Schema) -> str:
        """A member's title if its author gave one, else its name in words."""
        title = str(schema.get("title", ""))
        return title if title and _bare(title) != _bare(name) else _in_words(name)

    def _whole(self, schema: Schema) -> Schema:
        return {**schema, "$defs": self._definitions} if self._definitions else schema


_COMMON: Final = ("path", "pointer", "label", "hint", "required", "nullable", "schema")
_ABOUT: Final = ("title", "description", "default", "examples")
_TOO_DEEP: Final = frozenset({""})
_LONG_FORMATS: Final = frozenset({"textarea", "multiline"})
_KINDS: Final = {
    "string": "A text",
    "number": "A number",
    "integer": "A whole number",
    "boolean": "Yes or no",
    "array": "A list",
    "object": "Several values",
}
YES_NO: Final = (Option(value="true", label="Yes"), Option(value="false", label="No"))


def _type_of(schema: Schema) -> tuple[str, bool]:
    """The one type beside `null`, empty if there are several or none, and whether `null` is there."""
    named = schema.get("type", "")
    if isinstance(named, str):
        return named, False
    others = [each for each in named if each != "null"]
    return others[0] if len(others) == 1 else "", "null" in named


def _choice_of(fixed: Fixed) -> Pick:
    """The one value that may be given or left out."""
    only = Option(value=fixed.value, label=_shown(fixed.schema["const"]))
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


def _described(schema: Schema) -> str:
    return " ".join(str(schema.get("description", "")).split())


def _title(schema: Schema) -> str:
    """A model's title in words: its class's name is taken apart, a title of the author's own stays."""
    title = str(schema.get("title", ""))
    return _in_words(title) if title.isidentifier() else title


def _bare(text: str) -> str:
    return re.sub(r"[\W_]", "", text).lower()


_ABBREVIATIONS: Final = {"id": "ID", "url": "URL", "uri": "URI", "iban": "IBAN", "vat": "VAT"}


def _in_words(name: str) -> str:
    """`pickupAt` and `pickup_at` as `Pickup at`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = [word if word.isupper() else word.lower() for word in re.split(r"[\s_\-]+", spaced) if word]
    text = " ".join(_ABBREVIATIONS.get(word, word) for word in words) or name
    return text[:1].upper() + text[1:]


def _json(value: object) -> str:
    return encode(value).decode()


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return value if isinstance(value, str) else _json(value)
