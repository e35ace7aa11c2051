"""Whether a step without `input` can be given the flow's input at all.

The flow's input goes to the tool as JSON: a tool that takes fewer fields, or the same ones under another
class, is fine. What is found here is only what fails in every run: a field that the tool requires and that
the flow's model never writes. Where a model has code of its own between the two (validators before it,
serializers), or takes fields that aren't declared, nothing is said.
"""

from collections.abc import Iterator
from typing import Any, TypeGuard

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo

from abeyance.engine.definitions import Tool


def missing_field(flow_input: Any, tool: Tool) -> str | None:
    """The first field that `tool` requires and that no value of the type `flow_input` has."""
    taken = tool.input.annotation
    if not _is_plain(flow_input) or not _is_plain(taken) or flow_input.model_config.get("extra") == "allow":
        return None
    written: set[Any] = set()
    for name, field in flow_input.model_fields.items():
        written |= {name, *_words(field)}
    for name, field in taken.model_fields.items():
        words = list(_words(field))
        simple = all(isinstance(word, str) for word in words)
        if field.is_required() and simple and not written & {name, *words}:
            return str(field.validation_alias or name)
    return None


def _is_plain(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Whether this is a model without code that would change which fields come in or go out."""
    if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
        return False
    own = annotation.__pydantic_decorators__
    return not (
        issubclass(annotation, RootModel)
        or own.model_validators
        or own.model_serializers
        or own.computed_fields
        or any(_has_own(annotation, name) for name in ("__get_pydantic_core_schema__", "model_dump"))
    )


def _has_own(model: type[BaseModel], name: str) -> bool:
    """Whether a class between the model and pydantic's own defines this."""
    return any(name in vars(each) for each in model.__mro__ if each not in BaseModel.__mro__)


def _words(field: FieldInfo) -> Iterator[Any]:
    """Every other name that a field is read or written under; some are paths and choices, no texts."""
    yield from filter(None, (field.alias, field.validation_alias, field.serialization_alias))
