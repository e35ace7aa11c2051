"""Requests to one server: every way that one can end is a reply or an error of ours.

What changes something is sent with an idempotency key, the caller's or one of its own, so that it counts
once. If its reply is lost because the connection broke, it is sent again, at most three times within four
seconds. A reply that doesn't come in time isn't asked for again, nor is a refusal.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unicodedata import category
from urllib.parse import urlsplit

import httpx

from abeyance import __version__
from abeyance.client.discovery import Server
from abeyance.client.errors import (
    ConnectionFailed,
    IdempotencyKeyInFlight,
    Refusal,
    UnexpectedReply,
    error_of,
)
from abeyance.world import SystemWorld

CONNECT_S = 5.0
PAUSES_S = (0.2, 0.8, 3.0)
MAX_KEY_LENGTH = 255
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Transport:
    """Sends requests with the server's token. Proxy variables don't hold for this machine's own server."""

    def __init__(
        self,
        server: Server,
        *,
        timeout_s: float,
        parse_float: Callable[[str], object],
        workspace: str | None = None,
    ) -> None:
        self.base_url = server.url
        self._found_in = server.found_in
        self._parse_float = parse_float
        headers = {"Accept": "application/json", "User-Agent": f"abeyance/{__version__}"}
        if server.token:
            headers["Authorization"] = f"Bearer {server.token}"
        if workspace:
            headers["Abeyance-Workspace"] = workspace
        self._http = httpx.Client(
            base_url=server.url,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            trust_env=urlsplit(server.url).hostname not in _LOOPBACK,
        )

    def get(self, path: str, query: Mapping[str, object | None]) -> tuple[Any, str]:
        """The reply's value, and its JSON text. `None` in the query is left out."""
        return self._send(
            "GET", path, query={name: _text(value) for name, value in query.items() if value is not None}
        )

    def post(self, path: str, body: bytes | None, *, idempotency_key: str | None = None) -> tuple[Any, str]:
        """The reply's value, and its JSON text."""
        return self.change("POST", path, body, idempotency_key=idempotency_key)

    def change(
        self, method: str, path: str, body: bytes | None, *, idempotency_key: str | None = None
    ) -> tuple[Any, str]:
        """The reply's value, and its JSON text; sent again under the same key if the reply is lost."""
        if idempotency_key is None:
            idempotency_key = SystemWorld().random_bytes(16).hex()
        headers = {b"Idempotency-Key": check_key(idempotency_key).encode()}
        if body is not None:
            headers[b"Content-Type"] = b"application/json"
        try:
            return self._send(method, path, body=body, headers=headers)
        except ConnectionFailed as error:
            if not error.perhaps_taken or _is_late(error):
                raise
            lost = error
        for pause in PAUSES_S:
            time.sleep(pause)
            try:
                return self._send(method, path, body=body, headers=headers)
            except ConnectionFailed as error:  # perhaps the server is starting again
                if _is_late(error):
                    break
            except IdempotencyKeyInFlight:
                pass
        raise lost

    def text(self, path: str) -> str:
        """The text that is answered to a GET."""
        reply = self._request("GET", path)
        if not reply.is_success:
            self._value(reply)
        return reply.text

    def stream(self, path: str, body: bytes) -> Iterator[bytes]:
        """What is answered to a POST, in pieces as they come. A connection that breaks is an error."""
        headers = {"Content-Type": "application/json"}
        try:
            with self._http.stream("POST", path, content=body, headers=headers) as reply:
                if not reply.is_success:
                    reply.read()
                    self._value(reply)
                yield from reply.iter_bytes()
        except httpx.TransportError as error:
            raise ConnectionFailed(
                f"the connection to {self.base_url} failed ({type(error).__name__}); what came isn't whole"
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[bytes, bytes] | None = None,
    ) -> tuple[Any, str]:
        return self._value(self._request(method, path, query=query, body=body, headers=headers))

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[bytes, bytes] | None = None,
    ) -> httpx.Response:
        try:
            return self._http.request(method, path, params=query, content=body, headers=headers)
        except httpx.ConnectError as error:
            hint = f" (from {self._found_in})" if self._found_in else ""
            raise ConnectionFailed(
                f"nobody answers at {self.base_url}{hint}; is the server running?"
            ) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ConnectionFailed(
                f"the connection to {self.base_url} failed ({type(error).__name__}); "
                "the request may have been taken",
                perhaps_taken=True,
            ) from error

    def _value(self, reply: httpx.Response) -> tuple[Any, str]:
        try:
            text = reply.content.decode("utf-8-sig")
            value = json.loads(text, parse_float=self._parse_float, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise UnexpectedReply(f"{self.base_url} answered {reply.status_code} without JSON") from error
        if reply.is_success:
            return value, text
        raise error_of(_refusal(reply, value))


def _refusal(reply: httpx.Response, value: object) -> Refusal:
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        raise UnexpectedReply(f"the reply is {reply.status_code} and not one of abeyance's")
    details = error.get("details")
    seconds = reply.headers.get("Retry-After", "")
    return Refusal(
        status=reply.status_code,
        code=error["code"],
        message=str(error.get("message", "")),
        details=details if isinstance(details, dict) else {},
        request_id=error.get("requestId"),
        retry_after_s=int(seconds) if seconds.isascii() and seconds.isdigit() else None,
    )


def check_key(key: str) -> str:
    """The idempotency key, if it can be sent as one. Raises `ValueError`."""
    if not 1 <= len(key) <= MAX_KEY_LENGTH or key != key.strip() or any(category(c) == "Cc" for c in key):
        raise ValueError(
            f"an idempotency key is 1 to {MAX_KEY_LENGTH} characters, no control characters, no space around"
        )
    return key


def _is_late(error: ConnectionFailed) -> bool:
    """Whether nothing broke: the reply didn't come in time."""
    return isinstance(error.__cause__, httpx.TimeoutException)


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
