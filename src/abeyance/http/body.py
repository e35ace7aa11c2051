"""The bodies of requests, read as RFC 9112 says: all of it or nothing.

In this order: 415 by the headers, 413 by Content-Length or at the first byte too many, 400 for a body that
ends too early or isn't JSON. Zero bytes are `{}`, whatever their type; white space alone isn't JSON.

* Chunked bodies count like any other.
* `application/json` and `application/*+json` in any case, with `charset` utf-8 or none; any other parameter
  is left alone. Anything else, no type, a type twice and any Content-Encoding are 415.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from falcon.asgi import Request

from abeyance.errors import BadInputError, RequestTooLargeError, UnsupportedMediaTypeError
from abeyance.http.disconnect import IncompleteBodyError, watched_body
from abeyance.journal.canonical import canonicalise

MAX_BODY_BYTES: Final = 1_048_576

Given = TypeVar("Given")
Result = TypeVar("Result")

# Parsing 64 KiB takes 3 to 7 ms. Larger bodies share two threads, so that they can't hold up small answers.
_LARGE_BODY_BYTES: Final = 65_536
_MAX_FIELDS: Final = 10_000
_LARGE_BODIES: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="large-body")


async def read_json(request: Request, *, limit: int = MAX_BODY_BYTES) -> bytes:
    """Return the body as canonical JSON; `{}` if it has no bytes. `limit` is in bytes.

    Raises `UnsupportedMediaTypeError`, `RequestTooLargeError`, `BadInputError`.
    """
    headers = _named(request)
    if b"content-encoding" in headers:
        raise UnsupportedMediaTypeError("send the body without Content-Encoding")
    is_json = _is_json(headers.get(b"content-type", ()))
    raw = await _read(request, headers, limit, None if is_json else UnsupportedMediaTypeError())
    if not raw:
        return b"{}"
    return await work_on(len(raw), canonicalise, raw)


async def read_bytes(request: Request, *, limit: int = MAX_BODY_BYTES) -> bytes:
    """Return the body as it was sent, whatever its type. Raises `RequestTooLargeError`, `BadInputError`."""
    return await _read(request, _named(request), limit, None)


async def read_form(request: Request, *, limit: int = MAX_BODY_BYTES) -> dict[str, str]:
    """Return the fields of a form that was sent as `application/x-www-form-urlencoded` in UTF-8, as the URL
    standard has it; no bytes are no fields.

    Raises `UnsupportedMediaTypeError`, `RequestTooLargeError`, `BadInputError` (a field twice is one).
    """
    headers = _named(request)
    is_form = b"content-encoding" not in headers and _is_form(headers.get(b"content-type", ()))
    refusal = UnsupportedMediaTypeError("send the form as application/x-www-form-urlencoded in UTF-8")
    raw = await _read(request, headers, limit, None if is_form else refusal)
    return await work_on(len(raw), _fields, raw)


async def work_on(size: int, work: Callable[[Given], Result], given: Given) -> Result:
    """Return `work(given)`, which comes of a body of `size` bytes: a large one's is done apart from the
    loop.
    """
    if size <= _LARGE_BODY_BYTES:
        return work(given)
    return await asyncio.get_running_loop().run_in_executor(_LARGE_BODIES, work, given)


def _fields(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS, separator="&"
        )
    except ValueError:
        raise BadInputError("the form isn't UTF-8, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadInputError("the form has a field twice")
    return fields


_Headers: TypeAlias = dict[bytes, tuple[bytes, ...]]
_NAMES: Final = frozenset({b"content-encoding", b"content-length", b"content-type", b"transfer-encoding"})


def _named(request: Request) -> _Headers:
    """The headers that are about the body, each with all its values."""
    named: _Headers = {}
    for name, value in request.scope["headers"]:
        if name in _NAMES:
            named[name] = (*named.get(name, ()), value)
    return named


async def _read(
    request: Request, headers: _Headers, limit: int, refusal: UnsupportedMediaTypeError | None
) -> bytes:
    """Return the whole body; raise `refusal` if it has any bytes."""
    # gunicorn takes `gzip, chunked`, and undoes the chunks only.
    if [coding.strip().lower() for coding in headers.get(b"transfer-encoding", ())] not in ([], [b"chunked"]):
        raise BadInputError("send the body with no Transfer-Encoding but chunked")
    lengths = headers.get(b"content-length")
    declared = int(lengths[0]) if lengths else None
    if declared and refusal is not None:
        raise refusal
    if declared is not None and declared > limit:
        raise RequestTooLargeError(limit)
    body = watched_body(request.scope)
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await body.next_piece():
            if refusal is not None:
                raise refusal
            size += len(piece)
            if size > limit:
                raise RequestTooLargeError(limit)
            pieces.append(piece)
    except IncompleteBodyError:
        raise _incomplete() from None
    if declared is not None and size != declared:
        raise _incomplete()
    return b"".join(pieces)


def _incomplete() -> BadInputError:
    return BadInputError("the body ended before it was complete and nothing was taken: send it again")


# RFC 9110, sections 5.6 and 8.3.1.
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_VALUE: Final = _TOKEN + rb'|"(?:[^"\\]|\\.)*+"'
_PARAMETERS: Final = rb"(?:[ \t]*+;[ \t]*+(?:" + _TOKEN + rb"=(?:" + _VALUE + rb"))?+)*+"
_JSON_TYPE: Final = re.compile(
    rb"(?i:application/(?:json|[!#$%&'*+\-.^_`|~0-9a-z]+\+json))(" + _PARAMETERS + rb")[ \t]*+"
)
_FORM_TYPE: Final = re.compile(rb"(?i:application/x-www-form-urlencoded)(" + _PARAMETERS + rb")[ \t]*+")
_PARAMETER: Final = re.compile(rb"(" + _TOKEN + rb")=(" + _VALUE + rb")")


@lru_cache(maxsize=64)
def _is_json(types: tuple[bytes, ...]) -> bool:
    """Whether the values of all Content-Type headers are one JSON type, read as UTF-8."""
    return _is_type(_JSON_TYPE, types)


def _is_form(types: tuple[bytes, ...]) -> bool:
    return _is_type(_FORM_TYPE, types)


def _is_type(pattern: re.Pattern[bytes], types: tuple[bytes, ...]) -> bool:
    found = pattern.fullmatch(types[0]) if len(types) == 1 else None
    if found is None:
        return False
    parameters = _PARAMETER.findall(found[1])
    return all(
        _unquoted(value).lower() == b"utf-8" for name, value in parameters if name.lower() == b"charset"
    )


def _unquoted(value: bytes) -> bytes:
    return re.sub(rb"\\(.)", rb"\1", value[1:-1]) if value.startswith(b'"') else value
