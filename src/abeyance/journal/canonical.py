"""Strict JSON in, canonical JSON out: the bytes that are compared, measured, digested and stored.

What is read: RFC 8259, in UTF-8 only (a leading byte order mark is skipped), and stricter where parsers are
known to disagree: no duplicate keys, no NaN or Infinity, no lone surrogates, bounded depth, count and digits.

What is written: keys sorted by code point, no white space, the shortest escapes, everything else as plain
UTF-8, and **number tokens exactly as they were sent**: `1`, `1.0` and `1e0` are three different answers, and
a number that no machine type holds survives. For ordinary values `jq -jcS .` writes the same bytes.

This isn't RFC 8785, which rewrites numbers as IEEE doubles and sorts keys by UTF-16 units.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

from abeyance.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused whatever its shape.

    `depth` counts nested arrays and objects, `values` every value (keys aren't values), `digits` the digits
    of one number, those of an exponent included.
    """

    depth: int = 100
    values: int = 100_000
    digits: int = 1_000


DEFAULT_LIMITS: Final = Limits()

_MESSAGES: Final = {
    "not-utf-8": "the encoding isn't UTF-8: send the JSON as UTF-8",
    "not-json": "this isn't JSON",
    "too-deep": "the JSON nests too deep",
    "too-many-values": "the JSON has too many values",
    "duplicate-key": "an object has the same key twice",
    "not-finite": "a number is NaN, infinite or too large for a double: send it as a string",
    "too-many-digits": "a number has too many digits: send it as a string",
    "lone-surrogate": "a string holds half of a surrogate pair, which isn't a character",
}


class InvalidJsonError(BadInputError):
    """Bytes or a value that can't be taken as JSON.

    `problem` is a stable reason code (a key of the table above), `position` the offset in bytes where reading
    stopped, as far as it is known. Never a part of the value.
    """

    def __init__(self, problem: str, position: int | None = None) -> None:
        message = _MESSAGES[problem]
        super().__init__(message if position is None else f"{message} (at byte {position})")
        self.problem = problem
        self.position = position


class _Number(str):
    """The token of a number, as it was sent."""

    __slots__ = ()


def canonicalise(raw: bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Read `raw` strictly and return its canonical form.

    Canonical bytes come back unchanged. Raises `InvalidJsonError`.
    """
    text, skipped = _text_of(raw)
    _check_shape(raw, limits)
    value = _parse(_strict_decoder(limits), text, skipped)
    pieces: list[str] = []
    _write(value, pieces.append)
    return _encoded(pieces)


def decode(canonical: bytes, *, parse_float: Callable[[str], object] = float) -> object:
    """Return the Python value of bytes that `canonicalise` or `encode` made.

    Whole numbers come as `int` whatever their length, others as `parse_float` makes them of their token.
    """
    text, skipped = _text_of(canonical)
    _check_shape(canonical, DEFAULT_LIMITS)
    most = sys.get_int_max_str_digits()
    native = most == 0 or most >= DEFAULT_LIMITS.digits
    return _parse(_decoder(parse_float, int if native else _integer), text, skipped)


def encode(value: object, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Write a Python value as canonical JSON; tuples are arrays.

    Raises `TypeError` for what JSON has no form for, keys that aren't strings included, `InvalidJsonError`
    for NaN, infinity, lone surrogates and whatever else `canonicalise` would refuse.
    """
    writer = _ValueWriter(limits)
    writer.write(value, limits.depth)
    return _encoded(writer.pieces)


_BOM: Final = b"\xef\xbb\xbf"
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_WHITE_SPACE: Final = b" \t\r\n"
_NOT_BRACKETS: Final = bytes(code for code in range(256) if code not in b"[]{}")
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def _text_of(raw: bytes) -> tuple[str, int]:
    """Return the text without a byte order mark, and the mark's length in bytes."""
    # ASCII in UTF-16 or UTF-32 is valid UTF-8 with NULs; JSON never has one among its first bytes.
    if b"\x00" in raw[:4]:
        raise InvalidJsonError("not-utf-8", raw.index(b"\x00"))
    skipped = len(_BOM) if raw.startswith(_BOM) else 0
    try:
        return raw[skipped:].decode("utf-8"), skipped
    except UnicodeDecodeError as error:
        raise InvalidJsonError("not-utf-8", skipped + error.start) from None


def _check_shape(raw: bytes, limits: Limits) -> None:
    """Refuse too deep and too many before anything recurses or allocates.

    The counts of the first lines are upper bounds that need no parsing, and nearly every body passes by them.
    """
    opened = raw.count(b"[") + raw.count(b"{")
    if opened <= limits.depth and opened + raw.count(b",") < limits.values:
        return
    bare = _STRING.sub(b'"', raw).translate(None, _WHITE_SPACE)
    depth = 0
    for bracket in bare.translate(None, _NOT_BRACKETS):
        depth += _STEP[bracket]
        if depth > limits.depth:
            raise InvalidJsonError("too-deep")
    opened = bare.count(b"[") + bare.count(b"{")
    filled = opened - bare.count(b"[]") - bare.count(b"{}")
    if 1 + bare.count(b",") + filled > limits.values:
        raise InvalidJsonError("too-many-values")


def _parse(decoder: json.JSONDecoder, text: str, skipped: int) -> object:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        position = skipped + len(text[: error.pos].encode("utf-8"))
        raise InvalidJsonError("not-json", position) from None


@lru_cache(maxsize=8)
def _strict_decoder(limits: Limits) -> json.JSONDecoder:
    """Return a decoder (C scanner) that keeps number tokens and refuses what the library lets pass."""

    def integer(token: str) -> _Number:
        if len(token) > limits.digits and len(token.lstrip("-")) > limits.digits:
            raise InvalidJsonError("too-many-digits")
        return _Number(token)

    def real(token: str) -> _Number:
        if len(token) > limits.digits and sum(map(str.isdigit, token)) > limits.digits:
            raise InvalidJsonError("too-many-digits")
        if not math.isfinite(float(token)):
            raise InvalidJsonError("not-finite")
        return _Number(token)

    return json.JSONDecoder(
        object_pairs_hook=_without_duplicates,
        parse_int=integer,
        parse_float=real,
        parse_constant=_refuse_constant,
    )


@lru_cache(maxsize=8)
def _decoder(parse_float: Callable[[str], object], parse_int: Callable[[str], int]) -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=parse_int, parse_float=parse_float, parse_constant=_refuse_constant)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidJsonError("duplicate-key")
    return members


def _refuse_constant(_token: str) -> object:
    raise InvalidJsonError("not-finite")


# Pieces below the smallest limit that an interpreter can be given (640).
_PIECE: Final = 500
_NATIVE_BITS: Final = 3 * _PIECE


def _integer(token: str) -> int:
    """Return the integer of a token of any length, in spite of the interpreter's limit on digits."""
    digits = token.lstrip("-")
    total = 0
    for start in range(0, len(digits), _PIECE):
        piece = digits[start : start + _PIECE]
        total = total * 10 ** len(piece) + int(piece)
    return -total if token.startswith("-") else total


def _digits(number: int) -> str:
    """Return an integer's decimal digits, in spite of the interpreter's limit."""
    pieces: list[str] = []
    rest = abs(number)
    while rest >= 10**_PIECE:
        rest, low = divmod(rest, 10**_PIECE)
        pieces.append(str(low).zfill(_PIECE))
    pieces.append(str(rest))
    return ("-" if number < 0 else "") + "".join(reversed(pieces))


_CONSTANTS: Final[dict[object, str]] = {None: "null", True: "true", False: "false"}


def _write(value: object, emit: Callable[[str], None]) -> None:
    """Write what the strict decoder made. The recursion is bounded: the depth was checked before."""
    if isinstance(value, _Number):
        emit(value)
    elif isinstance(value, str):
        emit(encode_basestring(value))
    elif isinstance(value, dict):
        separator = "{"
        for key in sorted(value):
            emit(separator)
            emit(encode_basestring(key))
            emit(":")
            _write(value[key], emit)
            separator = ","
        emit("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            emit(separator)
            _write(item, emit)
            separator = ","
        emit("]" if value else "[]")
    else:
        emit(_CONSTANTS[value])


class _ValueWriter:
    """Writes any Python value, counting as it goes, so that a value that holds itself comes to an end."""

    def __init__(self, limits: Limits) -> None:
        self.pieces: list[str] = []
        self._emit = self.pieces.append
        self._limits = limits
        self._left = limits.values - 1

    def write(self, value: object, levels: int) -> None:
        """Write `value`, in which `levels` more arrays and objects may be opened inside each other."""
        if isinstance(value, str):
            self._emit(encode_basestring(value))
        elif value is None or value is True or value is False:
            self._emit(_CONSTANTS[value])
        elif isinstance(value, int):
            self._emit(_integer_token(value, self._limits))
        elif isinstance(value, float):
            self._emit(_real_token(value))
        elif isinstance(value, dict | list | tuple):
            self._left -= len(value)
            if not levels:
                raise InvalidJsonError("too-deep")
            if self._left < 0:
                raise InvalidJsonError("too-many-values")
            if isinstance(value, dict):
                self._write_members(value, levels - 1)
            else:
                self._write_items(value, levels - 1)
        else:
            kind = type(value).__name__
            raise TypeError(f"JSON has no form for {kind}: make it a string, number, list or dict")

    def _write_members(self, members: dict[str, object], levels: int) -> None:
        try:
            keys = sorted(members)
            names = [encode_basestring(key) for key in keys]
        except TypeError:
            kinds = {type(key).__name__ for key in members} - {"str"}
            raise TypeError(f"keys of a JSON object are strings, not {', '.join(sorted(kinds))}") from None
        separator = "{"
        for key, name in zip(keys, names, strict=True):
            self._emit(f"{separator}{name}:")
            self.write(members[key], levels)
            separator = ","
        self._emit("}" if keys else "{}")

    def _write_items(self, items: list[object] | tuple[object, ...], levels: int) -> None:
        separator = "["
        for item in items:
            self._emit(separator)
            self.write(item, levels)
            separator = ","
        self._emit("]" if items else "[]")


def _integer_token(value: int, limits: Limits) -> str:
    bits = value.bit_length()
    if bits < _NATIVE_BITS and limits.digits > _PIECE:
        return int.__repr__(value)
    # A digit is worth 3.33 bits, so this bounds the work before digits are made.
    if bits > 4 * limits.digits:
        raise InvalidJsonError("too-many-digits")
    token = _digits(value)
    if len(token.lstrip("-")) > limits.digits:
        raise InvalidJsonError("too-many-digits")
    return token


def _real_token(value: float) -> str:
    if not math.isfinite(value):
        raise InvalidJsonError("not-finite")
    return float.__repr__(value)


def _encoded(pieces: list[str]) -> bytes:
    try:
        return "".join(pieces).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJsonError("lone-surrogate") from None
