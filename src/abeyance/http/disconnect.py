"""Tells the end of a request's body from the end of its connection.

In ASGI both end a body: `http.request` without `more_body`, and `http.disconnect`. falcon's stream takes
either for the end, so that half an answer looks whole: a chunked body without its last chunk, one shorter
than its Content-Length, or none at all. RFC 9112, section 8: such a message is incomplete and must not be
processed.

`watch_body` stands between server and falcon. It also keeps falcon from asking for the first piece before a
route has been found: servers send `100 Continue` when they are asked, and a body that its headers are enough
to refuse must not be invited (RFC 9110, section 10.1.1).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]

_KEY: Final = "abeyance.body"


class IncompleteBodyError(Exception):
    """The connection ended, or nothing came for the server's time limit, before the body was complete."""


class WatchedBody:
    """The body of one request, read piece by piece straight from the server."""

    __slots__ = ("_complete", "_receive", "_told")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._told = False
        self._complete = False

    async def next_piece(self) -> bytes:
        """Return the next bytes that come, none after the last. Raises `IncompleteBodyError`."""
        while not self._complete:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise IncompleteBodyError
            if piece := event.get("body"):
                return bytes(piece)
        return b""

    async def receive(self) -> Event:
        """What falcon calls. The first event only says that there may be a body."""
        if not self._told:
            self._told = True
            return {"type": "http.request", "body": b"", "more_body": True}
        event = await self._receive()
        if event["type"] == "http.request" and not event.get("more_body", False):
            self._complete = True
        return event


def watch_body(scope: Scope, receive: Receive) -> Receive:
    """Put a `WatchedBody` into the scope of an HTTP request; return the `receive` to hand on."""
    if scope["type"] != "http":
        return receive
    # ASGI promises no more than iterables of iterables, and falcon goes through them once.
    scope["headers"] = [(name, value) for name, value in scope["headers"]]
    body = scope[_KEY] = WatchedBody(receive)
    return body.receive


def watched_body(scope: Scope) -> WatchedBody:
    """Return the request's body. Raises `LookupError` if the application was called without `watch_body`."""
    body = scope.get(_KEY)
    if not isinstance(body, WatchedBody):
        raise LookupError("nobody watches this request's body: call `watch_body` before the application")
    return body
