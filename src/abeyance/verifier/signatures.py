"""Signatures: DSSE envelopes of events and bundles, signed notes (C2SP) of checkpoints, all by Ed25519.

A key's id is the first 8 bytes of SHA-256 over its SubjectPublicKeyInfo in DER, in hex:
`openssl pkey -pubin -in key.pem -outform DER | sha256sum`.
"""

import binascii
import re
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

EVENT_TYPE = b"application/vnd.abeyance.event.v1+json"
BUNDLE_TYPE = b"application/vnd.abeyance.bundle.v1+json"

_SPKI = bytes.fromhex("302a300506032b6570032100")
_NOTE_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_VERIFIER_KEY = re.compile(r"[^\s+]+\+[0-9a-f]{8}\+([A-Za-z0-9+/]+={0,2})")
_SIGNER, _COSIGNER = b"\x01", b"\x04"


def signed_bytes(kind: bytes, body: bytes) -> bytes:
    """What a DSSE signature covers: PAE(type, body)."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


def key_id(public_key: bytes) -> str:
    """The id of a raw Ed25519 public key, 16 hex digits."""
    return sha256(_SPKI + public_key).hexdigest()[:16]


@lru_cache(maxsize=64)
def _loaded(public_key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_key)


def holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature is this key's over the message."""
    try:
        _loaded(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def decode(text: str | bytes) -> bytes:
    """Standard base64. Raises `ValueError`."""
    return binascii.a2b_base64(text, strict_mode=True)


def read_public_key(text: str) -> bytes:
    """A raw public key from PEM, from base64, or from a C2SP verifier key. Raises `ValueError`."""
    if "-----BEGIN" in text:
        key = load_pem_public_key(text.encode())
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("the key is not an Ed25519 key")
        return key.public_bytes_raw()
    found = _VERIFIER_KEY.fullmatch(text.strip())
    raw = decode(found[1] if found else text.strip())
    if found and raw[:1] == _SIGNER:
        raw = raw[1:]
    if len(raw) != 32:
        raise ValueError("a public key is PEM, or 32 bytes in base64")
    return raw


def read_witness(text: str) -> tuple[str, bytes]:
    """Name and raw key of a witness from its verifier key, `<name>+<id>+<base64>`. Raises `ValueError`."""
    name, _, rest = text.strip().partition("+")
    raw = decode(rest.partition("+")[2])
    if not name or len(raw) != 33 or raw[:1] not in (_SIGNER, _COSIGNER):
        raise ValueError("a witness is <name>+<id>+<base64>, an Ed25519 key")
    return name, raw[1:]


class Note:
    """A signed note: its text, and its signatures by name. Raises `ValueError` if it isn't one."""

    def __init__(self, note: str) -> None:
        text, _, signatures = note.rpartition("\n\n")
        lines = [_NOTE_LINE.fullmatch(line) for line in signatures.removesuffix("\n").split("\n")]
        if not text or not note.endswith("\n") or not all(lines):
            raise ValueError("not a signed note")
        self.text = text + "\n"
        self._signatures = [(line[1], decode(line[2])) for line in lines if line]

    def is_signed(self, name: str, public_key: bytes) -> bool:
        """Whether the log with this name and key has signed the text."""
        return any(holds(public_key, raw, self.text.encode()) for raw in self._by(name, public_key, _SIGNER))

    def cosigned_at(self, name: str, public_key: bytes) -> int | None:
        """When a witness saw it (seconds since the epoch), `None` if it didn't sign or its line is wrong."""
        for raw in self._by(name, public_key, _COSIGNER):
            moment, signature = int.from_bytes(raw[:8]), raw[8:]
            if holds(public_key, signature, f"cosignature/v1\ntime {moment}\n{self.text}".encode()):
                return moment
        return None

    def _by(self, name: str, public_key: bytes, kind: bytes) -> list[bytes]:
        wanted = sha256(name.encode() + b"\n" + kind + public_key).digest()[:4]
        return [raw[4:] for who, raw in self._signatures if who == name and raw[:4] == wanted]
