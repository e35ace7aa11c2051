"""The stored form of an event: `kid[8] ‖ signature[64] ‖ dictionary[1] ‖ deflated body`.

The signature covers the plain body. The body is deflated (raw, RFC 1951) against a preset dictionary whose
version is the byte before it: a fixed text of what bodies repeat, followed by what the row's other columns
say already (key, origin, stream). Bodies are kept as they were signed and never re-serialised; the plain
bytes come back exactly, whatever the zlib release.
"""

import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from pydantic import ValidationError

from abeyance.crypto.signing import Signer, pae, verify_signature
from abeyance.errors import HistoryDamagedError, UnknownEventError, VerificationError
from abeyance.journal.body import BODY_VERSION, MAX_BODY_BYTES, Body, format_body, leaf_hash, parse_body
from abeyance.journal.events import DEPLOYMENT_STREAM, EVENT_TYPES, Event
from abeyance.journal.store import EventRow

_HEADER = 8 + 64 + 1
_DICTIONARY_VERSION = 1
_FIXED = (
    b'"lost","drained","worker-lost","actor":"code":"handler-error","detail":"due_at":"fork","ag'
    b'ent","labels":"parent":"person":"now","uuid","random","value":"kind":"timer-set","timer-fi'
    b'red","value-recorded""node":"race-decided","winner":"closed":"retry-scheduled","call-faile'
    b'd","attempt":1,"final":true"answered-at-once","step-retried","run-ended","run-cancelled","'
    b'reason":"wait-token-discarded""wait-token-timed-out","wait-token-answered","held":true,"na'
    b'me":"step-completed","cancelled","failed""definition":{"digest":"","id":"","kind":"script"'
    b',"version":"0.1.0"},"expires_at":"2026-01-0T0:00:00.000000Z","input":{"scheme":"s1","sha25'
    b'6":"","size":256},"key_id":1,"project":"default","trigger":"api","workspace":"default"},"t'
    b'":"started""data":{"line":"","name":"the confirmation","op":"","times_out_at":"2026-12-01T'
    b'00:00:00.000000Z","wait":"pause::1"},"t":"call-paused""data":{"approvals":0,"open_waits":"'
    b'","other":0,"signals":0,"tokens":1},"t":"suspended""data":{"answer":{"scheme":"s1","sha256'
    b'":"","size":256},"by":"link","wait":"pause:","t":"wait-token-completed""data":{"output":{"'
    b'scheme":"s1","sha256":"","size":256}},"t":"completed""data":{"op":"1","output":{"scheme":"'
    b's1","sha256":"","size":256}},"t":"call-completed""data":{"args":"","attempt":1,"input":{"s'
    b'cheme":"s1","sha256":"","size":256},"key":"","link":"","node":"","op":"","tool":{"id":"","'
    b'schema_digest":"","version":"0.1.0"},"wait":"pause::1"},"t":"call-started"{"at":"2027-2026'
    b'-12-T00:00:00.000000Z","data":{"op":"'
)


def _dictionary(kid: bytes, origin: str, stream: UUID) -> bytes:
    # The deployment's own stream says what the origin is, so it is read without knowing it.
    origin = "" if stream == DEPLOYMENT_STREAM else origin
    tail = f',"kid":"{kid.hex()}","log":"{origin}","prev":null,"run":"{stream}","t":"","v":1,"ver":,"prev":"'
    return _FIXED + tail.encode()


class Recorded(NamedTuple):
    """An event as it stands in its stream. `digest` is its leaf hash, `prev` that of the one before."""

    stream: UUID
    version: int
    at: datetime
    event: Event
    digest: bytes
    prev: bytes | None
    kid: bytes

    @property
    def topic(self) -> str:
        """The event's topic, `kind` in every view."""
        return self.event.topic


class EventCodec:
    """Writes and reads the stored form of events of one deployment (`origin`)."""

    def __init__(self, origin: str) -> None:
        self.origin = origin

    def seal(
        self, event: Event, *, stream: UUID, version: int, prev: bytes | None, at: datetime, signer: Signer
    ) -> tuple[EventRow, Recorded]:
        """Sign an event as the next of its stream. Raises `ValueError` past 16 KiB of body."""
        kid = signer.kid
        data = event.model_dump_json(exclude_none=True).encode()
        body = format_body(
            at=at,
            data=data,
            kid=kid,
            log=self.origin,
            prev=prev,
            run=stream,
            topic=event.topic,
            version=version,
        )
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"an event body of {len(body)} bytes is over {MAX_BODY_BYTES}")
        packer = zlib.compressobj(
            6, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY, _dictionary(kid, self.origin, stream)
        )
        packed = packer.compress(body) + packer.flush()
        state = b"".join((kid, signer.sign(pae(body)), bytes((_DICTIONARY_VERSION,)), packed))
        recorded = Recorded(stream, version, at, event, leaf_hash(body), prev, kid)
        return EventRow(stream, version, event.topic, state), recorded

    def plain(self, row: EventRow) -> bytes:
        """The signed body's bytes. Raises `HistoryDamagedError` if they can't be unpacked."""
        state = row.state
        if len(state) <= _HEADER or state[72] != _DICTIONARY_VERSION:
            raise HistoryDamagedError("the stored form isn't known", where=_where(row))
        unpacker = zlib.decompressobj(-15, zdict=_dictionary(state[:8], self.origin, row.run_id))
        try:
            body = unpacker.decompress(state[_HEADER:], MAX_BODY_BYTES)
        except zlib.error as error:
            raise HistoryDamagedError("the body can't be unpacked", where=_where(row)) from error
        if not unpacker.eof or unpacker.unused_data:
            raise HistoryDamagedError("the body can't be unpacked", where=_where(row))
        return body

    def open(self, row: EventRow) -> Recorded:
        """Read an event, and hold the row's unsigned columns to the body. Checks no signature.

        Raises `HistoryDamagedError`, or `UnknownEventError` for a topic or body version of a newer release.
        """
        plain = self.plain(row)
        body = parse_body(plain)
        if (body.run, body.version, body.topic, body.log) != (
            row.run_id,
            row.version,
            row.topic,
            self.origin,
        ):
            raise HistoryDamagedError("the row's columns and the signed body differ", where=_where(row))
        if body.kid != row.state[:8]:
            raise HistoryDamagedError("the row's key id and the signed body differ", where=_where(row))
        return Recorded(
            body.run, body.version, body.at, _decode(body, row), leaf_hash(plain), body.prev, body.kid
        )

    def verify(self, row: EventRow, public_keys: Mapping[bytes, bytes]) -> Recorded:
        """`open`, and check the signature by the key that the body names, out of `public_keys` (by kid)."""
        recorded = self.open(row)
        key = public_keys.get(recorded.kid)
        if key is None:
            raise HistoryDamagedError("signed by a key that the log doesn't certify", where=_where(row))
        try:
            verify_signature(key, row.state[8:72], pae(self.plain(row)))
        except VerificationError as error:
            raise HistoryDamagedError(error.reason, where=_where(row)) from error
        return recorded


def read_origin(row: EventRow) -> str:
    """The origin that an event of the deployment's stream was signed for. Checks nothing else."""
    return parse_body(EventCodec("").plain(row)).log


def _where(row: EventRow) -> str:
    return f"event {row.version} ({row.topic}) of {row.run_id}"


def _decode(body: Body, row: EventRow) -> Event:
    kind = EVENT_TYPES.get(body.topic)
    if kind is None or body.v != BODY_VERSION:
        raise UnknownEventError(body.topic, body.v)
    try:
        return kind.model_validate_json(body.data)
    except ValidationError as error:
        raise HistoryDamagedError("the data doesn't have its topic's shape", where=_where(row)) from error
