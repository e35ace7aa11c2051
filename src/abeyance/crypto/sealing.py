"""Sealing of content under a run's data key, and wrapping of those keys.

Content is AES-256-GCM with a random 96-bit nonce; the associated data binds a blob to its run, its
event's version and its digest, so that a blob moved elsewhere doesn't open. Keys are wrapped with
AES key wrap (RFC 3394), which needs no nonce and adds 8 bytes.
"""

import hmac
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from abeyance.errors import ConfigurationError, VerificationError

KEY_BYTES = 32
NONCE_BYTES = 12


class RunKey:
    """A run's data key, ready for use: seals and opens content, and makes keyed digests."""

    __slots__ = ("_aead", "_key", "key_id")

    def __init__(self, key_id: int, key: bytes) -> None:
        self.key_id = key_id
        self._key = key
        self._aead = AESGCM(key)

    def seal(self, nonce: bytes, plain: bytes, associated: bytes) -> bytes:
        """`nonce[12] ‖ ciphertext ‖ tag[16]`. `nonce` must be fresh and random."""
        return nonce + self._aead.encrypt(nonce, plain, associated)

    def open(self, blob: bytes, associated: bytes) -> bytes:
        """The plain bytes. Raises `VerificationError` if blob or associated data were changed."""
        try:
            return self._aead.decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], associated)
        except (InvalidTag, ValueError) as error:
            raise VerificationError("stored content was changed or moved") from error

    def keyed_digest(self, purpose: bytes, message: bytes) -> bytes:
        """HMAC-SHA256 of `message` under this key, for one `purpose`. Dies with the key."""
        return hmac.digest(self._key, purpose + b"\x00" + message, sha256)


def wrap_key(wrapping_key: bytes, key: bytes) -> bytes:
    """`key` (32 bytes) wrapped under `wrapping_key`: 40 bytes (RFC 3394)."""
    return aes_key_wrap(wrapping_key, key)


def unwrap_key(wrapping_key: bytes, wrapped: bytes) -> bytes:
    """The key that `wrap_key` wrapped. Raises `ConfigurationError` under another wrapping key."""
    try:
        return aes_key_unwrap(wrapping_key, wrapped)
    except InvalidUnwrap as error:
        raise ConfigurationError("a stored key was wrapped under another master or epoch key") from error
