"""Which signing keys have ended: a row each, checked by every append in its own transaction.

Ending a key waits for the appends by it that run, and later ones are refused, so that all its events have a
sealed index below that of the event that ends it: a verifier needs no grace.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from abeyance.journal.api_keys import StreamAppend

Ended = Literal["retired", "revoked"]


class SigningKeyStore(Protocol):
    """The rows of one journal. All methods raise `StoreUnavailableError`; then nothing was written."""

    async def end(self, kid: bytes, state: Ended, append: StreamAppend) -> bool:
        """End a key together with the event that says so; `False` if the stream has moved on.

        Waits for running appends by the key, and raises once they take longer than a statement may.
        """

    async def ended(self) -> Mapping[bytes, Ended]:
        """The keys that have ended, by kid."""
