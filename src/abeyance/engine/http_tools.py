"""Tools that are one HTTP request: JSON in, JSON out, no code.

The server is fixed by the definition: the template's parts fill the path and the query, never the host, and
each is percent-encoded (RFC 3986, 2.1), so an input can't reach another address or another resource.
Redirects aren't followed. Anything but a 2xx fails the call with the status alone; a body of the other side
is never repeated. Such a tool can't pause: nothing in it could hand the link on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from abeyance.engine import values
from abeyance.engine.define import is_whole, make_tool
from abeyance.engine.definitions import Shape, Tool
from abeyance.engine.signatures import Signature, shape_of
from abeyance.engine.source import line_of_caller
from abeyance.engine.tool_context import ToolContext
from abeyance.errors import InvalidDefinitionError, UnexpectedResponseError
from abeyance.journal import canonical

MAX_RESPONSE_BYTES = 1_048_576
MOST_RESPONSE_BYTES = 16_777_216
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
METHODS = METHODS_WITH_BODY | {"GET", "DELETE"}
OWN_HEADERS = frozenset({"accept-encoding", "content-length", "content-type", "host", "idempotency-key"})

_PART = re.compile(r"\{([^{}]*)\}")


def http_tool(
    *,
    id: str,
    method: str,
    url: str,
    input: Any,  # noqa: A002 - the word that authors write
    output: Any,
    version: str = "0.1.0",
    headers: Mapping[str, str] | None = None,
    timeout_ms: int = 30_000,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    mutating: bool | None = None,
    effects: Sequence[Mapping[str, str]] = (),
    description: str = "",
    pauses: bool = False,
) -> Tool:
    """A tool that sends one request and returns what the server answers.

    `url` is a template: `https://carrier.example/orders/{orderId}?full={full}`, with the input's fields by
    their wire names. POST, PUT and PATCH send the whole input as JSON. Every request has an `Idempotency-Key`
    header with the call's key. `mutating` is False for GET, if left out, and else True. `pauses=True` is
    refused.
    """
    if pauses:
        raise InvalidDefinitionError(
            id, "an HTTP tool can't pause: write a tool with code that hands on the link"
        )
    line = line_of_caller()
    request = Request(
        method=_checked_method(id, method),
        url=url,
        headers=_checked_headers(id, headers or {}),
        input=shape_of(id, input, "input"),
        output=shape_of(id, output, "output"),
        timeout_ms=timeout_ms,
        max_response_bytes=max_response_bytes,
    )
    if not is_whole(max_response_bytes) or not 1 <= max_response_bytes <= MOST_RESPONSE_BYTES:
        raise InvalidDefinitionError(id, f"max_response_bytes takes 1 to {MOST_RESPONSE_BYTES}")
    fault = _template_fault(url, request.input)
    if fault is not None:
        raise InvalidDefinitionError(id, fault)
    return make_tool(
        id=id,
        version=version,
        description=description,
        handler=request.send,
        signature=Signature(input=input, output=output, takes_context=True, can_pause=False, is_async=True),
        pauses=False,
        mutating=request.method != "GET" if mutating is None else mutating,
        timeout_ms=timeout_ms,
        effects=effects,
        line=line,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one HTTP tool sends, and what it takes back."""

    method: str
    url: str
    headers: Mapping[str, str]
    input: Shape
    output: Shape
    timeout_ms: int
    max_response_bytes: int

    async def send(self, value: Any, context: ToolContext) -> Any:
        """Send the request for `value` and return the output."""
        body = values.write(self.input, value)
        headers = {**self.headers, "Accept-Encoding": "identity", "Idempotency-Key": context.idempotency_key}
        if self.method in METHODS_WITH_BODY:
            headers["Content-Type"] = "application/json"
        client = httpx.AsyncClient(verify=_tls(), timeout=self.timeout_ms / 1_000, follow_redirects=False)
        async with (
            client,
            client.stream(
                self.method,
                fill(self.url, canonical.decode(body)),
                headers=headers,
                content=body if self.method in METHODS_WITH_BODY else None,
            ) as response,
        ):
            if not response.is_success:
                raise UnexpectedResponseError(response.status_code, "not a success")
            answer = await self._body(response)
        return values.read(self.output, canonical.canonicalise(answer or b"null"))

    async def _body(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnexpectedResponseError(response.status_code, "a compressed body was not asked for")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self.max_response_bytes:
                reason = f"the body is over {self.max_response_bytes} bytes"
                raise UnexpectedResponseError(response.status_code, reason)
        return bytes(body)


def fill(template: str, value: Any) -> str:
    """The URL of the template for an input. Raises `ValueError` for a part that would change the resource."""
    path, mark, query = template.partition("?")
    filled = _PART.sub(lambda part: _encoded(part[1], value, in_path=True), path)
    return filled + mark + _PART.sub(lambda part: _encoded(part[1], value, in_path=False), query)


def _encoded(name: str, value: Any, *, in_path: bool) -> str:
    part = value.get(name) if isinstance(value, dict) else None
    if isinstance(part, bool):
        text = "true" if part else "false"
    elif isinstance(part, str | int | float):
        text = str(part)
    else:
        raise ValueError(f"the URL's part {name!r} needs a text, a number or a boolean")
    # Servers and proxies resolve these, encoded or not, and would land on another resource.
    if in_path and text in ("", ".", ".."):
        raise ValueError(f"the URL's part {name!r} can't be empty, '.' or '..'")
    return quote(text, safe="")


@cache
def _tls() -> SSLContext:
    """Reading the certificates takes longer than many a request, so it is done once."""
    return httpx.create_ssl_context()


def _checked_method(definition: str, method: object) -> str:
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise InvalidDefinitionError(definition, f"method takes one of {', '.join(sorted(METHODS))}")
    return method.upper()


def _checked_headers(definition: str, headers: Mapping[str, str]) -> dict[str, str]:
    own = sorted(name for name in headers if name.lower() in OWN_HEADERS)
    if own:
        raise InvalidDefinitionError(definition, f"the header {own[0]} is set for every request already")
    try:
        httpx.Headers(headers).raw  # noqa: B018 - encodes every one of them
    except (UnicodeError, AttributeError, TypeError, ValueError) as error:
        raise InvalidDefinitionError(definition, "headers takes names and values in plain ASCII") from error
    if any("\r" in text or "\n" in text for pair in headers.items() for text in pair):
        raise InvalidDefinitionError(definition, "a header has no line breaks")
    return dict(headers)


def _template_fault(url: str, shape: Shape) -> str | None:
    """What is wrong with a URL template, or `None`."""
    try:
        parts = urlsplit(url)
        known_scheme, host = parts.scheme in ("http", "https"), parts.hostname
    except (AttributeError, ValueError):
        known_scheme, host = False, None
    if not known_scheme or not host:
        return "url starts with `https://` (or `http://`) and a host"
    if "{" in parts.netloc or "@" in parts.netloc:
        return "the host of the url is fixed: no `{…}` and no user name in it"
    bare = _PART.sub("", url)
    if "#" in url or "{" in bare or "}" in bare:
        return "the url has an unfinished `{…}` or a fragment"
    document = canonical.decode(shape.document)
    fields = document.get("properties", {}) if isinstance(document, dict) else {}
    unknown = [name for name in _PART.findall(url) if name not in fields]
    return f"the url's part {unknown[0]!r} is no field of the input (use its wire name)" if unknown else None
