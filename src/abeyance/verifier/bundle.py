"""The lines of a bundle, one JSON object each; what they hold is docs/reference/bundle.md.

A line is read with a bound on its length, so that no file can fill the memory. The usual line, an event, is
taken apart by one regular expression; any other by a JSON parser that refuses what JSON should not hold.
"""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from abeyance.verifier.records import parse_json
from abeyance.verifier.signatures import EVENT_TYPE, decode

MAX_LINE_BYTES = 1 << 20
_EVENT = re.compile(
    rb'\{"i":(0|[1-9]\d{0,17}),"event":\{"payload":"([A-Za-z0-9+/]+={0,2})","payloadType":"'
    + re.escape(EVENT_TYPE)
    + rb'","signatures":\[\{"keyid":"([0-9a-f]{16})","sig":"([A-Za-z0-9+/]{86}==)"\}\]\}\}\n',
    re.ASCII,
)


class BundleError(ValueError):
    """The file isn't a bundle, or not one that this program can read."""


class Signed(NamedTuple):
    """A DSSE envelope with its one signature, which is still in base64."""

    kind: bytes
    body: bytes
    keyid: str
    encoded: bytes

    @property
    def signature(self) -> bytes:
        """The signature's bytes. Raises `BundleError`."""
        try:
            return decode(self.encoded)
        except ValueError:
            raise BundleError("a signature isn't base64") from None


@dataclass(frozen=True, slots=True)
class Line:
    """A line that isn't an event: its number from 1 and its members."""

    number: int
    members: dict[str, Any]


@dataclass(slots=True)
class Reading:
    """A bundle that is being read. `digest` is of all whole lines before the newest one."""

    file: BinaryIO
    number: int = 0
    digest: Any = field(default_factory=sha256)
    _newest: bytes = b""

    def lines(self) -> Iterator[Line | tuple[int, Signed]]:
        """Events as `(index, envelope)`, everything else as `Line`. Raises `BundleError`."""
        while line := self.file.readline(MAX_LINE_BYTES + 1):
            self.digest.update(self._newest)
            self._newest = line
            self.number += 1
            if not line.endswith(b"\n"):
                raise BundleError(f"line {self.number} is cut off, or longer than {MAX_LINE_BYTES} bytes")
            found = _EVENT.fullmatch(line)
            if found is not None:
                yield int(found[1]), _signed(EVENT_TYPE, found[2], found[3], found[4])
            else:
                yield self._other(line)

    def _other(self, line: bytes) -> Line | tuple[int, Signed]:
        try:
            members = parse_json(line)
        except ValueError:
            raise BundleError(f"line {self.number} isn't JSON") from None
        if not isinstance(members, dict):
            raise BundleError(f"line {self.number} isn't a JSON object")
        if "event" in members and type(members.get("i")) is int and members.keys() == {"i", "event"}:
            return members["i"], read_envelope(members["event"], f"line {self.number}")
        return Line(self.number, members)


def read_envelope(envelope: object, where: str) -> Signed:
    """A DSSE envelope with one signature. Raises `BundleError`."""
    try:
        assert isinstance(envelope, dict)
        (signature,) = envelope["signatures"]
        return _signed(
            envelope["payloadType"].encode(),
            envelope["payload"].encode(),
            signature["keyid"].encode(),
            signature["sig"].encode(),
        )
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
        raise BundleError(f"{where} holds no signed envelope") from None


def _signed(kind: bytes, payload: bytes, keyid: bytes, signature: bytes) -> Signed:
    try:
        return Signed(kind, decode(payload), keyid.decode(), signature)
    except ValueError:
        raise BundleError("an envelope isn't base64") from None


@contextmanager
def open_bundle(path: Path) -> Iterator[Reading]:
    """A bundle, plain or gzipped. Raises `BundleError`."""
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            yield Reading(gzip.open(plain) if packed else plain)  # type: ignore[arg-type]
    except (OSError, EOFError) as error:
        raise BundleError(f"the file can't be read: {error}") from None


def dump(value: object) -> bytes:
    """Canonical JSON of what a bundle's own records hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
