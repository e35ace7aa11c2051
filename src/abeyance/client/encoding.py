"""How values become JSON on their way out, digit for digit.

Numbers keep their text: an `int` of any length, a `Decimal` as it is written (`1.10` stays `1.10`), a `float`
by its shortest form. A pydantic model is written by its aliases. Text that is JSON already is a `JsonText`.
"""

from decimal import Decimal
from json.encoder import encode_basestring
from typing import Protocol, runtime_checkable

from abeyance.journal import canonical

_DEPTH = canonical.DEFAULT_LIMITS.depth


class JsonText(str):
    """Text that is JSON already and is sent as it stands."""

    __slots__ = ()


@runtime_checkable
class Model(Protocol):
    """What a pydantic model offers."""

    def model_dump_json(self, *, by_alias: bool | None = None) -> str:
        """The model as JSON text."""


def encode(value: object) -> bytes:
    """`value` as JSON.

    Raises `TypeError` for what JSON has no form for and `InvalidJsonError` for NaN, infinity, lone surrogates
    and too deep a nesting; nothing has been sent then.
    """
    return canonical.canonicalise(_text(value, _DEPTH).encode("utf-8", "surrogatepass"))


def encode_members(members: dict[str, object]) -> bytes:
    """An object of `members`, those that are `None` left out. For `null` give `JsonText("null")`."""
    parts = (
        f"{encode_basestring(name)}:{_text(value, _DEPTH)}"
        for name, value in members.items()
        if value is not None
    )
    return f"{{{','.join(parts)}}}".encode()


def _text(value: object, levels: int) -> str:
    if isinstance(value, JsonText):
        return value
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise canonical.InvalidJsonError("not-finite")
        return str(value)
    if isinstance(value, Model):
        return value.model_dump_json(by_alias=True)
    if isinstance(value, dict | list | tuple):
        if levels == 0:
            raise canonical.InvalidJsonError("too-deep")
        return _container(value, levels - 1)
    return canonical.encode(value).decode()


def _container(value: dict[object, object] | list[object] | tuple[object, ...], levels: int) -> str:
    if not isinstance(value, dict):
        return f"[{','.join(_text(item, levels) for item in value)}]"
    odd = next((key for key in value if not isinstance(key, str)), None)
    if odd is not None:
        raise TypeError(f"keys of a JSON object are strings, not {type(odd).__name__}")
    members = (f"{encode_basestring(str(key))}:{_text(item, levels)}" for key, item in value.items())
    return f"{{{','.join(members)}}}"
