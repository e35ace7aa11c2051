"""Which fields of a form are wrong, and how: one rule a field.

The answer's acceptance decides; here it is only explained. Each value is looked at alone first, since what
the whole schema says of a choice, it says of all its branches. What only the whole knows is put to the field
that its pointer leads to.
"""

from collections.abc import Sequence
from typing import NamedTuple

from abeyance.console.fields import Field, Json, Lines
from abeyance.console.filling import Filled
from abeyance.engine.schemas import SchemaCheck
from abeyance.errors import Issue

_MOST_PLACES = 5


class Wrong(NamedTuple):
    """The rule that a field breaks; in a list its line, from 1; in JSON the places with their rules."""

    rule: str
    line: int | None = None
    places: str = ""


def rules_of(form: Field, filled: Filled, issues: Sequence[Issue]) -> dict[str, Wrong]:
    """What is wrong with each wrong field, by its path. The form's own stands for the answer as a whole."""
    found = {path: Wrong(rule) for path, rule in filled.problems.items()}
    for field, text in filled.used:
        if field.path not in found and (
            alone := SchemaCheck(dict(field.schema)).check_canonical(text.encode())
        ):
            found[field.path] = _wrong(field, alone)
    if found:
        return found
    for issue in issues:
        field, rest = _nearest(form, filled, issue.path)
        found.setdefault(field.path, _wrong(field, [Issue(rest, issue.rule)]))
    return found


def _wrong(field: Field, issues: Sequence[Issue]) -> Wrong:
    if isinstance(field, Json):
        places = [f"{issue.path or 'the whole'}: {issue.rule}" for issue in issues[:_MOST_PLACES]]
        return Wrong(issues[0].rule, places="; ".join(places))
    return Wrong(issues[0].rule, _line(field, issues[0].path))


def _nearest(form: Field, filled: Filled, pointer: str) -> tuple[Field, str]:
    """The field with a value that the pointer leads to or into, and the rest of the way; else the form."""
    for field, _ in filled.used:
        if pointer == field.pointer or pointer.startswith(field.pointer + "/"):
            return field, pointer[len(field.pointer) :]
    return form, pointer


def _line(field: Field, pointer: str) -> int | None:
    step = pointer[1:].partition("/")[0]
    return int(step) + 1 if isinstance(field, Lines) and step.isdecimal() else None
