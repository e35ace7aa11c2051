"""What `abeyance dev` serves while the pack that was just saved can't be loaded.

The reason stands in the terminal; the next save starts a new process. A first start that fails ends `dev`
instead.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

_BODY = (
    b'{"error":{"code":"pack-not-loaded","message":"the pack can\'t be loaded: the terminal of '
    b"`abeyance dev` "
    b'says why; save it again to go on"}}'
)
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", b"%d" % len(_BODY)),
    (b"cache-control", b"no-store"),
    (b"retry-after", b"1"),
]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def broken_app(scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
    """Answer every request with 503 `pack-not-loaded`."""
    await send({"type": "http.response.start", "status": 503, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})
