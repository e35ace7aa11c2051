"""The fields of a form: what a person fills in.

A field knows its place twice: `path` is its name in the form, the property names down to it, with `/~b0` for
a branch of a choice; `pointer` is where its value stands in the answer (RFC 6901).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

Schema: TypeAlias = Mapping[str, Any]


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
