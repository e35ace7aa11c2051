"""Reading a function's annotations: which type comes in, which goes out, whether it can pause.

Annotations are the contract with other systems (an answer is checked against the output's JSON Schema), so a
missing or unreadable one is refused when the function is defined, with the reason.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from pydantic import TypeAdapter

from abeyance.engine.definitions import Shape
from abeyance.engine.schemas import SchemaCheck, schema_digest, schema_of
from abeyance.engine.tool_context import PauseAnswer, ToolContext
from abeyance.errors import InvalidDefinitionError
from abeyance.journal import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function takes and gives. `output` is without `PauseAnswer`; `can_pause` says it was there."""

    input: Any
    output: Any
    takes_context: bool
    can_pause: bool
    is_async: bool


def read_tool_signature(definition: str, function: Callable[..., Any], names: Mapping[str, Any]) -> Signature:
    """The signature of a handler `(input)` or `(input, ctx)`. `names` are the names where it is defined."""
    parameters = _parameters(definition, function)
    if len(parameters) not in (1, 2):
        raise InvalidDefinitionError(definition, "a tool takes its input and, if it needs it, a ToolContext")
    if len(parameters) == 2:
        _check_context(definition, parameters[1])
    taken, returned = _annotations(definition, function, parameters[0].name, names)
    output, can_pause = _without_pause(definition, returned)
    if _mentions(taken, ToolContext) or _mentions(taken, PauseAnswer):
        raise InvalidDefinitionError(definition, "the input comes first, the ToolContext second")
    return Signature(
        input=taken,
        output=output,
        takes_context=len(parameters) == 2,
        can_pause=can_pause,
        is_async=inspect.iscoroutinefunction(function),
    )


def read_script_signature(
    definition: str, function: Callable[..., Any], names: Mapping[str, Any]
) -> Signature:
    """The signature of a script `async def (ctx, input)`."""
    parameters = _parameters(definition, function)
    if not inspect.iscoroutinefunction(function):
        raise InvalidDefinitionError(definition, "a script is an `async def`")
    if len(parameters) != 2:
        raise InvalidDefinitionError(definition, "a script takes its context and its input, in this order")
    taken, returned = _annotations(definition, function, parameters[1].name, names)
    if _mentions(returned, PauseAnswer):
        raise InvalidDefinitionError(definition, "a script can't pause; it waits by its context's operations")
    return Signature(input=taken, output=returned, takes_context=True, can_pause=False, is_async=True)


def shape_of(definition: str, annotation: Any, side: str) -> Shape:
    """The schema and the validation of one type. `side` (`input`, `output`) names it in a refusal."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = schema_of(adapter)
        return Shape(
            adapter=adapter,
            schema=SchemaCheck(schema),
            own_schema=SchemaCheck(_without_formats(schema)),
            document=canonical.encode(schema),
            digest=schema_digest(schema),
            annotation=annotation,
        )
    except Exception as error:
        # Pydantic, the type's own hooks and the schema compiler each raise their own errors.
        reason = f"no JSON Schema for its {side}: {type(error).__name__}: {error}"
        raise InvalidDefinitionError(definition, reason) from error


_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""


def _without_formats(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_formats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: part if key in _VALUES else _without_formats(part)
        for key, part in schema.items()
        # A property may be called `format`; its value is a schema then, not a text.
        if key != "format" or not isinstance(part, str)
    }


def _parameters(definition: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    if not inspect.isfunction(function):
        raise InvalidDefinitionError(definition, "only a function (`def` or `async def`) can be decorated")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidDefinitionError(definition, "a generator has no one result; use `return`, not `yield`")
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise InvalidDefinitionError(definition, "its parameters must be positional, without `*` or `**`")
    return parameters


def _check_context(definition: str, parameter: inspect.Parameter) -> None:
    # Not evaluated: ToolContext is often imported for the type checker only.
    annotation = parameter.annotation
    unnamed = annotation in (parameter.empty, Any, object, "Any", "object")
    if not unnamed and "ToolContext" not in str(annotation):
        raise InvalidDefinitionError(
            definition, f"`{parameter.name}` would be the ToolContext; put several values into one model"
        )


def _annotations(
    definition: str, function: Callable[..., Any], parameter: str, names: Mapping[str, Any]
) -> tuple[Any, Any]:
    inner = inspect.unwrap(function)
    written = {key: value for key, value in inner.__annotations__.items() if key in (parameter, "return")}
    for key, what in ((parameter, f"parameter `{parameter}`"), ("return", "return value")):
        if key not in written:
            raise InvalidDefinitionError(definition, f"its {what} needs an annotation")
    # Only these two are evaluated, in the names of the module and of the place where the function stands.
    holder = types.SimpleNamespace(__annotations__=written)
    try:
        hints = typing.get_type_hints(holder, inner.__globals__, dict(names), include_extras=True)
    except Exception as error:
        reason = f"its annotations can't be read: {type(error).__name__}: {error}"
        raise InvalidDefinitionError(definition, reason) from error
    return hints[parameter], hints["return"]


def _without_pause(definition: str, annotation: Any) -> tuple[Any, bool]:
    """The output type of `Pickup | PauseAnswer`, and whether `PauseAnswer` was in it."""
    members = _union_members(annotation)
    rest = [member for member in members if member is not PauseAnswer]
    if len(rest) == len(members):
        output = annotation
    elif rest:
        output = Union[tuple(rest)]  # noqa: UP007 - the members are known only now
    else:
        raise InvalidDefinitionError(definition, "say what the answer is: `-> Output | PauseAnswer`")
    if _mentions(output, PauseAnswer):
        raise InvalidDefinitionError(definition, "`PauseAnswer` stands beside the output, not inside it")
    return output, len(rest) < len(members)


def _union_members(annotation: Any) -> tuple[Any, ...]:
    annotation = getattr(annotation, "__value__", annotation)  # a `type` alias of Python 3.12
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _mentions(annotation: Any, wanted: type) -> bool:
    open_parts, seen = [annotation], set()
    while open_parts:
        part = open_parts.pop()
        if part is wanted:
            return True
        if id(part) not in seen:  # an alias may hold itself
            seen.add(id(part))
            open_parts += [*typing.get_args(part), *filter(None, [getattr(part, "__value__", None)])]
    return False
