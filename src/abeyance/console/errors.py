"""Which fields of a form are wrong, and how: one rule a field.

The answer's acceptance decides; here it is only explained. Each value is looked at alone first, since what
the whole schema says of a choice, it says of all its branches. What only the whole knows is put to the field
that its pointer leads to.
"""

from collections.abc import Sequence

from abeyance.console.fields import Field, Lines
from abeyance.console.filling import Filled
from abeyance.engine.schemas import SchemaCheck
from abeyance.errors import Issue


def rules_of(form: Field, filled: Filled, issues: Sequence[Issue]) -> dict[str, tuple[str, int | None]]:
    """The rule that each wrong field breaks, by its path, and the line of a list that does, from 1.

    The form's own path stands for the answer as a whole.
    """
    found: dict[str, tuple[str, int | None]] = {path: (rule, None) for path, rule in filled.problems.items()}
    for field, text in filled.used:
        if field.path not in found and (
            alone := SchemaCheck(dict(field.schema)).check_canonical(text.encode())
        ):
            found[field.path] = alone[0].rule, _line(field, alone[0].path)
    if found:
        return found
    for issue in issues:
        field, rest = _nearest(form, filled, issue.path)
        found.setdefault(field.path, (issue.rule, _line(field, rest)))
    return found


def _nearest(form: Field, filled: Filled, pointer: str) -> tuple[Field, str]:
    """The field with a value that the pointer leads to or into, and the rest of the way; else the form."""
    for field, _ in filled.used:
        if pointer == field.pointer or pointer.startswith(field.pointer + "/"):
            return field, pointer[len(field.pointer) :]
    return form, pointer


def _line(field: Field, pointer: str) -> int | None:
    step = pointer[1:].partition("/")[0]
    return int(step) + 1 if isinstance(field, Lines) and step.isdecimal() else None
