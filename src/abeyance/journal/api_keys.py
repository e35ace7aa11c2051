"""API keys: the port to their rows.

A row holds the SHA-256 of a key's text, never the text: a key has 32 random bytes, which nobody finds by
trying. Every change of a row goes in with the event that says so, in one transaction, and only while the
workspace's stream is as it was when the event was signed: of two changes at once, one is decided again.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from abeyance.journal.store import EventRow


class ApiKeyRow(NamedTuple):
    """An API key. `id` is public and begins with the time at which the key was made; `digest` is SHA-256 of
    its text. `project` is `None` for a key of the whole workspace, `executes` for one that executes whatever
    is there. `expires` and `revoked` are `None` for a key that doesn't expire, or isn't revoked. `actor` made
    it.
    """

    id: str
    digest: bytes
    name: str
    workspace: str
    project: str | None
    grants: tuple[str, ...]
    executes: tuple[str, ...] | None
    created: int
    expires: int | None
    revoked: int | None
    actor: str | None


class StreamAppend(NamedTuple):
    """Events that go in after version `expected` of a stream, if that is still its newest."""

    stream: UUID
    expected: int
    events: Sequence[EventRow]


class ApiKeyStore(Protocol):
    """The rows of one journal. All methods raise `StoreUnavailableError`; then nothing was written."""

    async def find(self, digest: bytes) -> ApiKeyRow | None:
        """The key with this digest, good or not. One read by primary key."""

    async def get(self, workspace: str, key_id: str) -> ApiKeyRow | None:
        """The key with this id, if it is the workspace's."""

    async def page(self, workspace: str, project: str | None, after: str, limit: int) -> list[ApiKeyRow]:
        """Keys of a workspace, of one project or all, whose id is greater than `after`, oldest first."""

    async def create(self, row: ApiKeyRow, append: StreamAppend) -> bool:
        """Put a new key with its event; `False` if the stream has moved on."""

    async def revoke(self, key_id: str, revoked: int, append: StreamAppend) -> bool:
        """Revoke a key with its event; `False` if the stream has moved on."""
