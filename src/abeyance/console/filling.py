"""From what was typed into a form to the JSON of the answer.

What is left empty is left out; where it must be there it is `null` if that is allowed, an empty list for a
list, and else a problem. A text is taken as it was typed, its line ends as `\\n`; a number keeps its text.
So these values can't be typed, and need the form for JSON: a text that is empty or only white space, or that
is a number where a number may stand too; an empty list or object that may be left out; `null` where the value
may be left out; a bare carriage return; and in lists a text with a line end, or an empty one. A text with a
`format` loses the white space around it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from abeyance.console.fields import Either, Field, Fixed, Group, Json, Lines, Number, Pick, Text
from abeyance.journal.canonical import InvalidJsonError, canonicalise

NO_BRANCH: Final = "none"
"""The choice of no branch."""
VALUE, CHOICE, ZONE = "v", "c", "z"
"""What a control's name begins with: a value, the choice of a branch, a date and time's offset."""

ZONES: Final = tuple(
    f"{sign}{hours:02}:{minutes:02}"
    for sign, hours, minutes in (
        *(("-", hours, 0) for hours in range(12, 9, -1)),
        ("-", 9, 30),
        *(("-", hours, 0) for hours in range(9, 3, -1)),
        ("-", 3, 30),
        *(("-", hours, 0) for hours in range(3, 0, -1)),
        *(("+", hours, 0) for hours in range(4)),
        ("+", 3, 30), ("+", 4, 0), ("+", 4, 30), ("+", 5, 0), ("+", 5, 30), ("+", 5, 45),
        ("+", 6, 0), ("+", 6, 30), ("+", 7, 0), ("+", 8, 0), ("+", 8, 45), ("+", 9, 0), ("+", 9, 30),
        ("+", 10, 0), ("+", 10, 30), ("+", 11, 0), ("+", 12, 0), ("+", 12, 45), ("+", 13, 0), ("+", 14, 0),
    )
)  # fmt: skip

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
LOCAL_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?")


@dataclass(slots=True)
class Filled:
    """An answer as it was filled in. `text` is JSON; `problems` has the rule that a field breaks, by the
    field's path; `used` are the fields with a value, each with its JSON.
    """

    text: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    used: list[tuple[Field, str]] = field(default_factory=list)


def fill(form: Field, given: Mapping[str, str]) -> Filled:
    """Fill the form with the controls' values by their names. What a form lacks counts as left empty."""
    filling = _Filling(given)
    text = filling.value_of(form)
    if text is None:
        text = "null"
        if not form.nullable:
            filling.filled.problems.setdefault(form.path, _missing(form))
    filling.filled.text = text
    return filling.filled


def names_of(form: Field) -> frozenset[str]:
    """The names of all controls of a form."""
    if isinstance(form, Group):
        return frozenset().union(*(names_of(member) for _, member in form.members))
    if isinstance(form, Either):
        return frozenset({CHOICE + form.path}).union(*(names_of(branch) for branch in form.branches))
    if isinstance(form, Text) and form.format == "date-time":
        return frozenset({VALUE + form.path, ZONE + form.path})
    return frozenset() if isinstance(form, Fixed) else frozenset({VALUE + form.path})


class _Filling:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.filled = Filled()

    def value_of(self, form: Field) -> str | None:
        """The field's JSON, `None` if it is left empty."""
        match form:
            case Group():
                return self._group(form)
            case Either():
                return self._either(form)
            case Fixed():
                return form.value
            case _:
                text = self._leaf(form)
                if text is not None:
                    self.filled.used.append((form, text))
                return text

    def _group(self, form: Group) -> str | None:
        if not form.required and not self._touched(form):
            return None
        parts = []
        for name, member in form.members:
            text = self.value_of(member)
            if text is None and member.required:
                if member.nullable:
                    text = "null"
                else:
                    self.filled.problems.setdefault(member.path, _missing(member))
            if text is not None:
                parts.append(f"{_quoted(name)}:{text}")
        return "{" + ",".join(parts) + "}"

    def _either(self, form: Either) -> str | None:
        chosen = self._given.get(CHOICE + form.path, "")
        numbers = [str(number) for number in range(len(form.branches))]
        if chosen not in numbers:
            typed = any(self._touched(branch) for branch in form.branches)
            if chosen != NO_BRANCH and (chosen or typed):  # nothing that was typed is dropped in silence
                self.filled.problems.setdefault(form.path, "choose")
            return None
        branch = form.branches[int(chosen)]
        text = self.value_of(branch)
        if text is None and not branch.nullable:
            self.filled.problems.setdefault(branch.path, _missing(branch))
        return "null" if text is None else text

    def _touched(self, form: Field) -> bool:
        """Whether a person has put something into it."""
        return any(self._says_something(name) for name in names_of(form))

    def _says_something(self, name: str) -> bool:
        text = self._given.get(name, "").strip()
        return bool(text) and name[0] != ZONE and (name[0], text) != (CHOICE, NO_BRANCH)

    def _leaf(self, form: Field) -> str | None:
        typed = self._given.get(VALUE + form.path, "").replace("\r\n", "\n").replace("\r", "\n")
        match form:
            case Lines():
                return self._lines(form, typed)
            case Json():
                return self._json(form, typed)
            case Text(format="date-time"):
                typed = self._moment(form, typed.strip())
            case Text(format=named) if named:
                typed = typed.strip()
        return self._scalar(form, typed) if typed.strip() else None

    def _scalar(self, form: Field, typed: str) -> str:
        if isinstance(form, Number):
            if _NUMBER.fullmatch(typed.strip()):
                return typed.strip()
            if not form.or_text:
                self.filled.problems.setdefault(form.path, "type")
        if isinstance(form, Pick):
            if typed in (option.value for option in form.options):
                return typed
            self.filled.problems.setdefault(form.path, "enum")
        return _quoted(typed)

    def _lines(self, form: Lines, typed: str) -> str | None:
        lines = [line for line in typed.split("\n") if line.strip()]
        if not lines and (not form.required or form.nullable):
            return None
        return "[" + ",".join(self._item(form, line) for line in lines) + "]"

    def _item(self, form: Lines, line: str) -> str:
        if isinstance(form.item, Pick):
            wanted = line.strip()
            for option in form.item.options:
                if wanted in (option.label, option.value) or wanted.lower() == option.label.lower():
                    return option.value
            self.filled.problems.setdefault(form.path, "enum")
            return _quoted(line)
        if isinstance(form.item, Text) and form.item.format:
            line = line.strip()
        return self._scalar(form.item, line)

    def _json(self, form: Json, typed: str) -> str | None:
        if not typed.strip():
            return None
        try:
            return canonicalise(typed.encode()).decode()
        except InvalidJsonError as error:
            self.filled.problems.setdefault(form.path, error.problem)
            return "null"

    def _moment(self, form: Text, typed: str) -> str:
        """A date and time: as it was typed if it has an offset, else with the one that was chosen."""
        local = LOCAL_TIME.fullmatch(typed)
        if local is None:
            return typed
        zone = self._given.get(ZONE + form.path, "")
        if zone not in ZONES:
            self.filled.problems.setdefault(form.path, "zone")
            return typed
        return f"{local[1]}T{local[2]}{local[3] or ':00'}{'Z' if zone == '+00:00' else zone}"


def _missing(form: Field) -> str:
    return "choose" if isinstance(form, Either | Pick) else "required"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
