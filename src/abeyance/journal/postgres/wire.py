"""Statements and their parameters in PostgreSQL's binary format.

An append sends 35 arrays. psycopg's own dumpers take longer for them than the server takes for the append,
so they are packed here: a header (dimensions, flags, element type, length, lower bound), then each element
with its length before it, -1 for NULL. The format is that of `array_send` and of each type's `…_send`.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

_HEADER = Struct("!iiIii").pack
_BIGINT = Struct("!q").pack
_BIGINT_ELEMENT = Struct("!iq").pack
_UUID_ELEMENT = Struct("!i16s").pack
_LENGTH = Struct("!i").pack
_NULL = _LENGTH(-1)
_BIGINT_OID, _BYTEA_OID, _TEXT_OID, _UUID_OID = 20, 17, 25, 2950
_OIDS = (_BIGINT_OID, _BYTEA_OID, _TEXT_OID, _UUID_OID)
_NONE = {oid: Struct("!iiI").pack(0, 0, oid) for oid in _OIDS}
_ONE = {oid: _HEADER(1, 1, oid, 1, 1) for oid in _OIDS}


def _array(oid: int, elements: list[bytes]) -> bytes:
    if not elements:
        return _NONE[oid]
    if len(elements) == 1:
        return _ONE[oid] + elements[0]
    return _HEADER(1, 1, oid, len(elements), 1) + b"".join(elements)


def bigints(values: Sequence[int | None]) -> bytes:
    """`bigint[]`."""
    return _array(_BIGINT_OID, [_NULL if value is None else _BIGINT_ELEMENT(8, value) for value in values])


def uuids(values: Sequence[UUID | None]) -> bytes:
    """`uuid[]`."""
    return _array(_UUID_OID, [_NULL if value is None else _UUID_ELEMENT(16, value.bytes) for value in values])


def byteas(values: Sequence[bytes | None]) -> bytes:
    """`bytea[]`."""
    return _array(_BYTEA_OID, [_NULL if value is None else _LENGTH(len(value)) + value for value in values])


def texts(values: Sequence[str]) -> bytes:
    """`text[]`."""
    encoded = [value.encode() for value in values]
    return _array(_TEXT_OID, [_LENGTH(len(value)) + value for value in encoded])


def _bigint(value: int | None) -> bytes | None:
    return None if value is None else _BIGINT(value)


def _uuid(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes


def _bytea(value: bytes | None) -> bytes | None:
    return value


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


_TYPES: dict[str, tuple[int, Callable[[Any], bytes | None]]] = {
    "bigint": (_BIGINT_OID, _bigint),
    "bigint[]": (1016, bigints),
    "boolean": (16, _boolean),
    "bytea": (_BYTEA_OID, _bytea),
    "bytea[]": (1001, byteas),
    "text": (_TEXT_OID, _text),
    "text[]": (1009, texts),
    "uuid": (_UUID_OID, _uuid),
    "uuid[]": (2951, uuids),
}


class Statement(NamedTuple):
    """A statement as libpq takes it, and how its parameters are packed."""

    text: bytes
    oids: tuple[int, ...]
    formats: tuple[int, ...]
    packers: tuple[Callable[[Any], bytes | None], ...]

    def pack(self, values: Sequence[Any]) -> list[bytes | None]:
        """The values in binary. Raises `ValueError` if their number is wrong."""
        return [packer(value) for packer, value in zip(self.packers, values, strict=True)]


def statement(text: str, *types: str) -> Statement:
    """A statement with `$1`, `$2`, … of these types."""
    known = [_TYPES[name] for name in types]
    packers = tuple(packer for _, packer in known)
    return Statement(text.encode(), tuple(oid for oid, _ in known), (1,) * len(known), packers)


def _call(function: str, types: Sequence[str]) -> str:
    return f"{function}({', '.join(f'${place}' for place in range(1, len(types) + 1))})"


def rows_of(function: str, *types: str) -> Statement:
    """The call of a function that returns rows."""
    return statement(f"SELECT * FROM {_call(function, types)}", *types)


def value_of(function: str, *types: str) -> Statement:
    """The call of a function that returns one value."""
    return statement(f"SELECT {_call(function, types)}", *types)
