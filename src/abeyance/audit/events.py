"""Verification of one stored event by itself: everything that its row alone can prove or belie.

All checks are made, none stops at the first finding, except where there is nothing left to look at: a body
that can't be unpacked. The signature is checked over the plain bytes as they are stored, by the key that the
body names.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import ValidationError

from abeyance.audit.findings import Finding
from abeyance.crypto.signing import pae, verify_signature
from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.body import BODY_VERSION, Body, leaf_hash, parse_body
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import EVENT_TYPES, Event
from abeyance.journal.store import EventRow


class Examined(NamedTuple):
    """What could be read of an event. `digest` is its leaf hash, `event` its data if it is known."""

    row: EventRow
    digest: bytes | None
    body: Body | None
    event: Event | None
    findings: list[Finding]


def examine(row: EventRow, codec: EventCodec, public_keys: Mapping[bytes, bytes]) -> Examined:
    """Read an event and list what is wrong with it. `public_keys` are those it may be signed by, by kid."""
    problems: list[tuple[str, str]] = []
    plain = body = event = None
    try:
        plain = codec.plain(row)
        problems += _signature(row, plain, public_keys)
        body = parse_body(plain)
    except HistoryDamagedError as error:
        problems.append(("unreadable", error.reason))
    if body is not None:
        problems += _row(row, body, codec.origin)
        event, shape = _event(body)
        problems += shape
    digest = None if plain is None else leaf_hash(plain)
    return Examined(row, digest, body, event, [finding(row, digest, *problem) for problem in problems])


def finding(row: EventRow, digest: bytes | None, rule: str, problem: str) -> Finding:
    """A finding about this event."""
    return Finding(
        rule=rule,
        stream=row.run_id,
        version=row.version,
        problem=problem,
        topic=row.topic,
        event_id=None if digest is None else digest.hex(),
    )


def _signature(row: EventRow, plain: bytes, public_keys: Mapping[bytes, bytes]) -> list[tuple[str, str]]:
    key = public_keys.get(row.state[:8])
    if key is None:
        return [("key", f"signed by {row.state[:8].hex()}, which the log doesn't certify for this")]
    try:
        verify_signature(key, row.state[8:72], pae(plain))
    except VerificationError as error:
        return [("signature", error.reason)]
    return []


def _row(row: EventRow, body: Body, origin: str) -> list[tuple[str, str]]:
    pairs = (
        ("stream", row.run_id, body.run),
        ("version", row.version, body.version),
        ("topic", row.topic, body.topic),
        ("key id", row.state[:8].hex(), body.kid.hex()),
        ("log", origin, body.log),
    )
    return [
        ("row", f"the row says {name} {stored}, the signed body {signed}")
        for name, stored, signed in pairs
        if stored != signed
    ]


def _event(body: Body) -> tuple[Event | None, list[tuple[str, str]]]:
    kind = EVENT_TYPES.get(body.topic)
    if kind is None or body.v != BODY_VERSION:
        problem = f"topic {body.topic} with body version {body.v} is of another release"
        return None, [("unknown", problem)]
    try:
        event = kind.model_validate_json(body.data)
    except ValidationError:
        return None, [("shape", "the data doesn't have its topic's shape")]
    if event.model_dump_json(exclude_none=True).encode() != body.data:
        return event, [("shape", "the data isn't in its canonical form")]
    return event, []
