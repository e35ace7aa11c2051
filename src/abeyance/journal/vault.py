"""Content: what a person could have said, sealed under the run's key, beside the signed events.

The event holds a commitment, `SHA-256(salt[32] ‖ u64be(size) ‖ SHA-256(canonical))`, and the size rounded
up to 256; the vault's row holds `salt ‖ canonical bytes`, sealed. With the row, or its key, gone, nobody
can try out small answers against the commitment (docs/adr/0002). AES-GCM's associated data binds
a blob to the deployment, the run, the event's version and the commitment.
"""

from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from abeyance.crypto.sealing import NONCE_BYTES, RunKey
from abeyance.errors import VerificationError
from abeyance.journal.events import ContentRef
from abeyance.journal.store import ContentRow
from abeyance.world import World

SALT_BYTES = 32


class Content(NamedTuple):
    """A content before it is sealed: its commitment, and what opens it."""

    ref: ContentRef
    salt: bytes
    canonical: bytes


def commitment(salt: bytes, canonical: bytes) -> str:
    """The hex digest that stands in the event."""
    inner = sha256(canonical).digest()
    return sha256(salt + len(canonical).to_bytes(8) + inner).hexdigest()


def bucket(size: int) -> int:
    """`size` rounded up to 256, so that a size doesn't tell `true` from `false`; 0 stays 256."""
    return max(256, (size + 255) // 256 * 256)


class Vault:
    """Seals and opens the contents of one deployment."""

    def __init__(self, origin: str, world: World) -> None:
        self._prefix = origin.encode() + b"\x00"
        self._world = world

    def commit(self, canonical: bytes) -> Content:
        """Commit to canonical JSON with a fresh salt."""
        salt = self._world.random_bytes(SALT_BYTES)
        ref = ContentRef(sha256=commitment(salt, canonical), size=bucket(len(canonical)))
        return Content(ref, salt, canonical)

    def seal(self, content: Content, key: RunKey, *, run_id: UUID, version: int) -> ContentRow:
        """The vault's row for the content of the event at `version`."""
        nonce = self._world.random_bytes(NONCE_BYTES)
        associated = self._associated(run_id, version, content.ref)
        return ContentRow(run_id, version, key.seal(nonce, content.salt + content.canonical, associated))

    def open(self, blob: bytes, ref: ContentRef, key: RunKey, *, run_id: UUID, version: int) -> Content:
        """Open a blob and hold it to the event's commitment. Raises `VerificationError`."""
        plain = key.open(blob, self._associated(run_id, version, ref))
        salt, canonical = plain[:SALT_BYTES], plain[SALT_BYTES:]
        if commitment(salt, canonical) != ref.sha256:
            raise VerificationError("content and commitment differ", where=f"event {version} of {run_id}")
        return Content(ref, salt, canonical)

    def _associated(self, run_id: UUID, version: int, ref: ContentRef) -> bytes:
        return self._prefix + run_id.bytes + version.to_bytes(8) + bytes.fromhex(ref.sha256)
