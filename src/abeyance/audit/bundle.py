"""The lines of an export, one JSON object each (docs/reference/bundle.md). Pure.

A bundle begins with what it is, then come the records, each as it was signed, then the checkpoint that they
lead to, then a signed end that holds the SHA-256 of everything before it.
"""

import base64
import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from abeyance import __version__
from abeyance.audit.notes import Checkpoint
from abeyance.crypto.signing import EVENT_TYPE, Signer, pae_of
from abeyance.journal.store import EventRow

BUNDLE_TYPE = b"application/vnd.abeyance.bundle.v1+json"
_SIGNATURE = slice(8, 72)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _line(members: dict[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def envelope(kind: bytes, body: bytes, kid: bytes, signature: bytes) -> dict[str, Any]:
    """A DSSE envelope (1.0.2) with one signature."""
    return {
        "payload": _base64(body),
        "payloadType": kind.decode(),
        "signatures": [{"keyid": kid.hex(), "sig": _base64(signature)}],
    }


def record_line(index: int, row: EventRow, body: bytes) -> bytes:
    """An event: its place in the log, and its envelope."""
    # Written by hand: an export is mostly these lines, and base64 needs no escapes.
    return (
        b'{"i":%d,"event":{"payload":"%s","payloadType":"%s","signatures":[{"keyid":"%s","sig":"%s"}]}}\n'
        % (
            index,
            base64.b64encode(body),
            EVENT_TYPE,
            row.state[:8].hex().encode(),
            base64.b64encode(row.state[_SIGNATURE]),
        )
    )


def stub_line(index: int, leaf: bytes, purge: int) -> bytes:
    """A record that isn't stored any more: its hash, and the place of the event that says it was purged."""
    return _line({"i": index, "leaf": _base64(leaf), "purged": purge})


def proof_line(index: int, proof: Sequence[bytes]) -> bytes:
    """The way from a record of a filtered bundle to the checkpoint's root hash."""
    return _line({"i": index, "proof": [_base64(each) for each in proof]})


def opening_line(index: int, salt: bytes, size: int, digest: bytes) -> bytes:
    """The exact size and SHA-256 of a record's content, with the salt that its commitment was made with."""
    return _line({"i": index, "opening": {"salt": _base64(salt), "size": size, "sha256": digest.hex()}})


def tlog_proof(index: int, proof: Sequence[bytes], note: str) -> str:
    """A single record's proof (C2SP tlog-proof v1)."""
    lines = ["c2sp.org/tlog-proof@v1", f"index {index}", *(_base64(each) for each in proof), "", note]
    return "\n".join(lines)


class BundleWriter:
    """Writes the frame of a bundle and digests what goes through it. `wanted` is its filter."""

    def __init__(self, checkpoint: Checkpoint, note: str, wanted: dict[str, str] | None) -> None:
        self._checkpoint = checkpoint
        self._note = note
        self._filter = wanted
        self._digest = sha256()
        self.lines = 0

    def begin(self, created: str) -> bytes:
        """The first line."""
        return self.write(
            _line(
                {
                    "abeyance-bundle": 1,
                    "origin": self._checkpoint.origin,
                    "from": 0,
                    "size": self._checkpoint.size,
                    "filter": self._filter,
                    "created": created,
                    "tool": f"abeyance {__version__}",
                }
            )
        )

    def write(self, lines: bytes, count: int = 1) -> bytes:
        """Digest lines that are handed on."""
        self._digest.update(lines)
        self.lines += count
        return lines

    def finish(self, signer: Signer) -> bytes:
        """The checkpoint, and the signed end."""
        checkpoint = self.write(_line({"checkpoint": self._note}))
        said = {
            "filter": self._filter,
            "lines": self.lines,
            "log": self._checkpoint.origin,
            "sha256": self._digest.hexdigest(),
            "size": self._checkpoint.size,
        }
        body = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
        signature = signer.sign(pae_of(BUNDLE_TYPE, body))
        return checkpoint + _line({"end": envelope(BUNDLE_TYPE, body, signer.kid, signature)})
