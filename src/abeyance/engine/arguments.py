"""Arguments of operations as JSON text that is the same in every process.

The text is digested and compared with what a history holds, so it may not depend on the order of keyword
arguments, on the hash seed (sets are sorted), or on defaults that a tool's input model gets later: it is what
the program gave. What a tool is sent is made of it by `wire_input`.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python

from abeyance.engine.definitions import Tool
from abeyance.errors import InvalidOperationError
from abeyance.journal.canonical import canonicalise, encode

_CERTAINLY_SHALLOW_BYTES = 100
"""JSON this short nests at most 100 deep and has no number over 1,000 digits: the limits hold unseen."""
_TEXT = frozenset((str,))
_SIMPLE = frozenset((str, int, bool, type(None)))


def encode_arguments(value: object, owner: str) -> bytes:
    """`value` as JSON with sorted keys. `owner` names the operation in the error.

    Takes what JSON has, pydantic models, dataclasses, sets, times, UUIDs, decimals, enums, bytes.
    Raises `InvalidOperationError` for anything else.
    """
    try:
        text = _encode_flat(value) or _encode_any(value)
        return text if len(text) <= _CERTAINLY_SHALLOW_BYTES else canonicalise(text)
    except Exception as error:  # a model's own serializers raise what they like
        reason = f"{owner} takes arguments that JSON can hold: {type(error).__name__}"
        raise InvalidOperationError(reason) from error


def wire_input(tool: Tool, arguments: bytes) -> bytes:
    """The canonical input that `tool` is sent: wire names and defaults as of its input model.

    Arguments that don't fit are sent as they are, and the call fails where every input is checked.
    """
    adapter = tool.input.adapter
    try:
        value = adapter.validate_json(arguments, by_alias=True, by_name=True)
        return encode(adapter.dump_python(value, mode="json", by_alias=True, warnings="error"))
    except Exception:  # validators of user code raise what they like
        return canonicalise(arguments)


def merge_fields(tool: Tool, value: object, named: Mapping[str, object]) -> object:
    """The one argument of a call: `value`, or the fields given by name; neither is an empty object."""
    if value is None:
        return named
    if named:
        raise InvalidOperationError(
            f"call {tool.id} with one input or with its fields by name, not with both"
        )
    return value


def _encode_flat(value: object) -> bytes | None:
    """What `_encode_any` writes for a tuple or an object of simple values, but faster; else `None`."""
    if type(value) is tuple and _SIMPLE.issuperset(map(type, value)):
        return to_json(value)
    if (
        type(value) is dict
        and _SIMPLE.issuperset(map(type, value.values()))
        and _TEXT.issuperset(map(type, value))
    ):
        return to_json(dict(sorted(value.items())))
    return None


def _encode_any(value: object) -> bytes:
    try:
        return _ENCODER.encode(value).encode()
    except TypeError:  # keys that JSON has not, such as UUIDs
        return _ENCODER.encode(to_jsonable_python(value, by_alias=True)).encode()


def _plain(value: Any) -> Any:
    """What the encoder does with an object that JSON doesn't have."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True)
    if isinstance(value, set | frozenset):
        return sorted(value, key=_ENCODER.encode)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return to_jsonable_python(value, by_alias=True)


_ENCODER = json.JSONEncoder(
    sort_keys=True,
    ensure_ascii=False,
    separators=(",", ":"),
    allow_nan=False,
    default=_plain,
    check_circular=False,
)
