"""Signed notes (C2SP signed-note v1.0.0) and checkpoints (C2SP tlog-checkpoint v1.0.0).

A note is a text that ends with a newline, an empty line, and one line a signature:
`— <key name> <base64(key id[4] ‖ signature)>`. What is signed is the text with its last newline. A key's id
is the first 4 bytes of SHA-256 of its name, a newline, its type and its public key. A checkpoint is a note
whose text has three lines: the log's origin, the tree's size in decimal, the root hash in base64.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha256

from abeyance.crypto.signing import Signer, verify_signature
from abeyance.errors import VerificationError

ED25519 = b"\x01"
_SIGNATURE = re.compile(r"— (?P<name>[^\s+]+) (?P<value>[A-Za-z0-9+/]+=*)")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A key that signs notes: its name, and its raw Ed25519 public key (32 bytes)."""

    name: str
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """The 4 bytes before a signature."""
        return sha256(self.name.encode() + b"\n" + ED25519 + self.public_key).digest()[:4]

    @property
    def text(self) -> str:
        """The verifier key: `<name>+<hex key id>+<base64(type ‖ public key)>`."""
        encoded = base64.b64encode(ED25519 + self.public_key).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"


def parse_note_key(text: str) -> NoteKey:
    """The key that a verifier key names. Raises `VerificationError` for any other text."""
    name, _, rest = text.strip().partition("+")
    key_id, _, encoded = rest.partition("+")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    key = NoteKey(name, raw[1:])
    if not name or raw[:1] != ED25519 or len(raw) != 33 or key.key_id.hex() != key_id:
        raise VerificationError("a verifier key is <name>+<hex key id>+<base64>, of an Ed25519 key")
    return key


def sign_note(text: str, name: str, signer: Signer) -> str:
    """The note over `text`, which must end with a newline."""
    if not text.endswith("\n"):
        raise ValueError("a note's text ends with a newline")
    key = NoteKey(name, signer.public_key)
    signature = base64.b64encode(key.key_id + signer.sign(text.encode())).decode()
    return f"{text}\n— {name} {signature}\n"


def open_note(note: str, *keys: NoteKey) -> str:
    """The text of a note that one of `keys` has signed. Signatures of unknown keys count for nothing; one of
    a known key that doesn't hold refuses the note. Raises `VerificationError`.
    """
    text, _, signatures = note.rpartition("\n\n")
    lines = signatures.removesuffix("\n").split("\n")
    found = [_SIGNATURE.fullmatch(line) for line in lines]
    if not text or not note.endswith("\n") or not all(found):
        raise VerificationError("this isn't a signed note")
    text += "\n"
    if any(_holds(text, match["name"], match["value"], keys) for match in found if match):
        return text
    raise VerificationError("no known key has signed this note")


def _holds(text: str, name: str, value: str, keys: tuple[NoteKey, ...]) -> bool:
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise VerificationError("a note's signature isn't base64") from None
    for key in keys:
        if key.name == name and key.key_id == raw[:4]:
            if len(raw) != 68:
                raise VerificationError("a note's signature has the wrong length")
            verify_signature(key.public_key, raw[4:], text.encode())
            return True
    return False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log was when it was signed: its first `size` entries have the root hash `root`."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The three lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """The checkpoint that a note's text is; lines after the third are extensions. Raises
    `VerificationError`.
    """
    origin, size, root, *_ = [*text.split("\n"), "", "", ""]
    try:
        raw = base64.b64decode(root, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not origin or not _SIZE.fullmatch(size) or len(raw) != 32:
        raise VerificationError("this isn't a checkpoint: origin, size and root hash, a line each")
    return Checkpoint(origin, int(size), raw)
