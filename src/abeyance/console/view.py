"""What the templates ask about a form: ids and names of its controls, what was typed, hints and errors."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from abeyance.console.errors import Wrong
from abeyance.console.fields import Either, Field, Fixed, Group, Json, Lines, Number, Pick, Text, leaves
from abeyance.console.filling import CHOICE, LOCAL_TIME, VALUE, ZONE
from abeyance.console.messages import HINTS, says

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_KEYBOARDS: Final = {
    "email": Markup(' inputmode="email" autocapitalize="none" spellcheck="false"'),
    "uri": Markup(' inputmode="url" autocapitalize="none" spellcheck="false"'),
}


@dataclass(frozen=True, slots=True)
class Error:
    """A wrong field, for the summary: where it is, its label, what is wrong."""

    id: str
    label: str
    says: str


class FormView:
    """One form with what was typed into it. `rules` are those of `abeyance.console.errors.rules_of`."""

    def __init__(self, form: Field, given: Mapping[str, str], rules: Mapping[str, Wrong]) -> None:
        self._form = form
        self._given = given
        self._rules = rules
        self._ids = {each.path: f"f{number}" for number, each in enumerate(_all(form))}

    def errors(self) -> Iterator[Error]:
        """The wrong fields in the form's order; one that can't be pointed at isn't among them."""
        for field in _all(self._form):
            if self.error(field) and not isinstance(field, Fixed | Group):
                yield Error(self.id(field), field.label, self.error(field))

    def id(self, field: Field) -> str:
        """The id of the field's first control."""
        return self._ids[field.path]

    def name(self, field: Field) -> str:
        """The name of the control that holds the value."""
        return VALUE + field.path

    def choice(self, field: Field) -> str:
        """The name of the control that chooses a branch."""
        return CHOICE + field.path

    def zone(self, field: Field) -> str:
        """The name of the control for a moment's offset."""
        return ZONE + field.path

    def value(self, field: Field) -> str:
        """What was typed."""
        return self._given.get(self.name(field), "")

    def zone_value(self, field: Field) -> str:
        """The offset that was chosen."""
        return self._given.get(self.zone(field), "")

    def chosen(self, field: Field, branch: int | str) -> bool:
        """Whether this branch was chosen: its number, or that there is to be none."""
        return self._given.get(self.choice(field), "") == str(branch)

    def needed(self, field: Field) -> bool:
        """Whether it can't be left empty."""
        may_be_empty = isinstance(field, Lines) and not field.schema.get("minItems")
        return field.required and not field.nullable and not may_be_empty

    def hint(self, field: Field) -> str:
        """What helps to fill it in. The form's own is at the top of the page."""
        if field is self._form:
            return ""
        parts = [field.hint]
        if isinstance(field, Lines):
            parts.append("One a line.")
            if isinstance(field.item, Pick):
                parts.append("Any of: " + ", ".join(option.label for option in field.item.options) + ".")
        if isinstance(field, Json):
            parts.append("Written as JSON.")
        parts.append(_example(field) or HINTS.get(str(field.schema.get("format", "")), ""))
        default = field.schema.get("default")
        if default is not None and not self.needed(field) and not isinstance(default, dict | list):
            shown = {True: "Yes", False: "No"}.get(default, default) if isinstance(default, bool) else default
            parts.append(f"Left empty it is {shown}.")
        return " ".join(part for part in parts if part)

    def error(self, field: Field) -> str:
        """What is wrong with it, if anything."""
        if field.path not in self._rules:
            return ""
        wrong = self._rules[field.path]
        if wrong.places:
            return f"It doesn't fit. {wrong.places}."
        told = says(field, wrong.rule)
        return told if wrong.line is None else f"Line {wrong.line}: {told}"

    def notes(self, field: Field) -> str:
        """The ids of what is said about it."""
        told = (("hint", self.hint(field)), ("error", self.error(field)))
        return " ".join(f"{self.id(field)}-{kind}" for kind, text in told if text)

    def asks(self, field: Field) -> bool:
        """Whether there is anything to fill in."""
        return any(not isinstance(leaf, Fixed) for leaf in leaves(field))

    def control(self, field: Field) -> str:
        """`moment`, `area` or `line`."""
        if isinstance(field, Text) and field.format == "date-time":
            return "moment"
        long = isinstance(field, Json | Lines) or (isinstance(field, Text) and field.long)
        return "area" if long or "\n" in self.value(field) else "line"

    def type(self, field: Field) -> str:
        """The type of an input. What a date's own control can't show is shown as text, so it isn't lost."""
        typed = self.value(field)
        if isinstance(field, Text):
            if field.format == "date" and (not typed or _DATE.fullmatch(typed)):
                return "date"
            if field.format == "date-time" and (not typed or LOCAL_TIME.fullmatch(typed)):
                return "datetime-local"
            if field.format == "password":
                return "password"
        return "text"

    def keyboard(self, field: Field) -> Markup:
        """What a phone's keyboard should offer. Those for numbers have no minus."""
        if isinstance(field, Number) and not field.or_text:
            if any(field.schema.get(bound, -1) >= 0 for bound in ("minimum", "exclusiveMinimum")):
                return Markup(' inputmode="{}"').format("numeric" if field.whole else "decimal")
        if isinstance(field, Text):
            return _KEYBOARDS.get(field.format, Markup(""))
        return Markup("")


def _example(field: Field) -> str:
    examples = field.schema.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else None
    return f"For example {first}." if isinstance(first, str | int | float) else ""


def _all(field: Field) -> Iterator[Field]:
    yield field
    inner: tuple[Field, ...] = ()
    if isinstance(field, Group):
        inner = tuple(member for _, member in field.members)
    elif isinstance(field, Either):
        inner = field.branches
    for each in inner:
        yield from _all(each)
