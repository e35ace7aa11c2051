"""The signed body of an event: canonical JSON with the keys `at data kid log prev run t v ver`.

One text per value: `format_body` writes it, `parse_body` accepts nothing else. `prev` is the leaf hash of the
stream's event before, `null` for the first. The leaf hash (RFC 6962: SHA-256 of a zero byte and the body) is
the event's id, the chain link of the next event, and later its leaf in the Merkle log.
"""

import re
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from abeyance.errors import HistoryDamagedError
from abeyance.journal.events import format_moment, parse_moment

BODY_VERSION = 1
MAX_BODY_BYTES = 16 * 1024
ORIGIN_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*(/[A-Za-z0-9._-]+)*")

_BODY = re.compile(
    rb'\{"at":"([0-9T:.Z-]{27})","data":(\{.*\}),"kid":"([0-9a-f]{16})","log":"([^"\\]+)",'
    rb'"prev":(null|"[0-9a-f]{64}"),"run":"([0-9a-f-]{36})","t":"([a-z-]+)","v":([1-9][0-9]{0,5}),'
    rb'"ver":([1-9][0-9]{0,18})\}',
    re.DOTALL,
)


class Body(NamedTuple):
    """A parsed body. `data` is still JSON, in the shape of body version `v` and topic `topic`."""

    at: datetime
    data: bytes
    kid: bytes
    log: str
    prev: bytes | None
    run: UUID
    topic: str
    v: int
    version: int


def format_body(
    *,
    at: datetime,
    data: bytes,
    kid: bytes,
    log: str,
    prev: bytes | None,
    run: UUID,
    topic: str,
    version: int,
) -> bytes:
    """The bytes that are signed. `data` is the event's canonical JSON."""
    link = f'"{prev.hex()}"' if prev is not None else "null"
    head = f'{{"at":"{format_moment(at)}","data":'.encode()
    tail = (
        f',"kid":"{kid.hex()}","log":"{log}","prev":{link},"run":"{run}","t":"{topic}",'
        f'"v":{BODY_VERSION},"ver":{version}}}'
    )
    return head + data + tail.encode()


def parse_body(body: bytes) -> Body:
    """Read a body. Raises `HistoryDamagedError` for any bytes that `format_body` doesn't write."""
    match = _BODY.fullmatch(body)
    if match is None:
        raise HistoryDamagedError("the body isn't a canonical event body")
    at, data, kid, log, prev, run, topic, v, version = match.groups()
    try:
        moment = parse_moment(at.decode())
        stream = UUID(run.decode())
    except ValueError as error:
        raise HistoryDamagedError("the body holds a time or an id that isn't one") from error
    link = None if prev == b"null" else bytes.fromhex(prev[1:-1].decode())
    return Body(
        moment,
        data,
        bytes.fromhex(kid.decode()),
        log.decode(),
        link,
        stream,
        topic.decode(),
        int(v),
        int(version),
    )


def leaf_hash(body: bytes) -> bytes:
    """The event's id: SHA-256 of `0x00 ‖ body` (RFC 6962, section 2.1), 32 bytes."""
    return sha256(b"\x00" + body).digest()
