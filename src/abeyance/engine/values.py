"""Values between Python and canonical JSON, by one rule for all: what was stored must read back.

A value fits a type if its JSON fits the type's JSON Schema **and** the type's own validation takes it
(`abeyance.engine.schemas`). The schema is what other systems were promised, the model is what the code relies
on. This holds for inputs and for what handlers return as for the answers of other systems, with one
difference: `format` is asserted for others' answers only (`Shape.own_schema` says why).
"""

import math
from collections import deque
from typing import Any

from pydantic import ValidationError

from abeyance.engine.definitions import Shape
from abeyance.engine.schemas import check_with_model, read_model
from abeyance.errors import AbeyanceError, Issue, ValueInvalidError
from abeyance.journal import canonical


def read(shape: Shape, body: bytes) -> Any:
    """The value that `body` (canonical JSON) stands for. Raises `ValueInvalidError`."""
    issues = shape.own_schema.check_canonical(body)
    if issues:
        raise ValueInvalidError(issues)
    try:
        return read_model(shape.adapter, body)
    except Exception as error:  # a model's own validators may raise anything
        found = check_with_model(shape.adapter, body) or [Issue(path="", rule=type(error).__name__)]
        raise ValueInvalidError(found) from error


def write(shape: Shape, value: Any) -> bytes:
    """Canonical JSON of `value`. Raises `ValueInvalidError` if it doesn't fit, or wouldn't read back."""
    try:
        checked = shape.adapter.validate_python(value, by_alias=True, by_name=True)
        plain = shape.adapter.dump_python(checked, mode="json", by_alias=True, warnings="error")
        body = canonical.encode(plain)
        # Pydantic writes NaN as null without a word, where a field is `Any`; with `dump_json` everywhere.
        if b"null" in body:
            _refuse_non_finite(shape.adapter.dump_python(checked, warnings=False))
    except Exception as error:  # as in `read`
        raise ValueInvalidError(_issues_of(error)) from error
    read(shape, body)
    return body


def _refuse_non_finite(value: Any) -> None:
    open_parts = [value]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, float) and not math.isfinite(part):
            raise canonical.InvalidJsonError("not-finite")
        if isinstance(part, dict):
            open_parts += part.values()
        elif isinstance(part, list | tuple | set | frozenset | deque):
            open_parts += part


def _issues_of(error: Exception) -> list[Issue]:
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [
            Issue(path="".join(f"/{_escaped(part)}" for part in one["loc"]), rule=one["type"])
            for one in found
        ]
    # The text of other errors may quote the value; ours never does.
    return [Issue(path="", rule=str(error) if isinstance(error, AbeyanceError) else type(error).__name__)]


def _escaped(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
