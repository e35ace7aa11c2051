"""Ed25519 keys and DSSE signatures of event bodies.

A key's id, `kid`, is the first 16 hex digits of SHA-256 over its SubjectPublicKeyInfo in DER, so that
`openssl pkey -pubin -in key.pem -outform DER | sha256sum` shows it. What is signed is
`PAE(type, body)` of DSSE 1.0.2: "DSSEv1", type and body, each with its length.
"""

import base64
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from abeyance.errors import ConfigurationError, VerificationError

EVENT_TYPE = b"application/vnd.abeyance.event.v1+json"
_EVENT_PREFIX = b"DSSEv1 %d %s " % (len(EVENT_TYPE), EVENT_TYPE)


class Signer(Protocol):
    """Signs bytes with one key. A KMS is a `Signer` as a key file is."""

    @property
    def kid(self) -> bytes:
        """The key's id, 8 bytes."""

    @property
    def public_key(self) -> bytes:
        """The raw Ed25519 public key, 32 bytes."""

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`, 64 bytes."""


class FileSigner:
    """An Ed25519 key held in memory, read from a PEM file (PKCS#8) or a variable."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.sign = key.sign
        self.public_key: bytes = key.public_key().public_bytes_raw()
        self.kid: bytes = key_id(self.public_key)

    @classmethod
    def from_seed(cls, seed: bytes) -> "FileSigner":
        """The key whose 32-byte private seed is `seed`."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_pem(cls, pem: bytes) -> "FileSigner":
        """Read an unencrypted PKCS#8 PEM. Raises `ConfigurationError` for anything else."""
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise ConfigurationError("the signing key is not an unencrypted PKCS#8 PEM") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError("the signing key is not an Ed25519 key")
        return cls(key)

    def to_pem(self) -> bytes:
        """The private key as PKCS#8 PEM."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _spki(public_key: bytes) -> bytes:
    key = Ed25519PublicKey.from_public_bytes(public_key)
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id(public_key: bytes) -> bytes:
    """The 8-byte id of a raw Ed25519 public key."""
    digest = Hash(SHA256())
    digest.update(_spki(public_key))
    return digest.finalize()[:8]


def public_pem(public_key: bytes) -> bytes:
    """A raw Ed25519 public key as SubjectPublicKeyInfo PEM, as `openssl` reads it."""
    key = Ed25519PublicKey.from_public_bytes(public_key)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def read_public_pem(pem: bytes) -> bytes:
    """The raw public key of a PEM that holds it or its private key. Raises `ConfigurationError`."""
    if b"PRIVATE KEY" in pem:
        return FileSigner.from_pem(pem).public_key
    try:
        key = load_pem_public_key(pem)
    except ValueError as error:
        raise ConfigurationError("the public key is not a PEM (SubjectPublicKeyInfo)") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError("the public key is not an Ed25519 key")
    return key.public_bytes_raw()


def pae(body: bytes) -> bytes:
    """The bytes that a signature of an event body covers (DSSE 1.0.2, PAE)."""
    return b"%s%d %s" % (_EVENT_PREFIX, len(body), body)


def pae_of(kind: bytes, body: bytes) -> bytes:
    """The same for a body of another type."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


def verify_signature(public_key: bytes, signature: bytes, message: bytes) -> None:
    """Return if `signature` is `public_key`'s over `message`; else raise `VerificationError`."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature as error:
        raise VerificationError("the signature doesn't hold") from error


def encode_public_key(public_key: bytes) -> str:
    """A raw public key as standard base64, the form that `key-added` holds."""
    return base64.b64encode(public_key).decode()


def decode_public_key(text: str) -> bytes:
    """The raw public key that `encode_public_key` wrote."""
    return base64.b64decode(text, validate=True)
