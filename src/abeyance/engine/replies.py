"""Idempotency keys: which request is the same as an earlier one, and what that one was answered.

1. A key belongs to a workspace, a key holder and a path, and is kept for 24 hours. Rows hold no key and no
   request, only HMACs of them under a secret of the deployment.
2. Its row is stored with the effect (docs/adr/0006): a crash can't double it. What was answered is added
   afterwards, sealed: under the run's key, so that an erasure reaches it, else under another secret.
3. An answer that holds a secret isn't kept, nor is one of more than 256 KiB.

After the IETF's draft "The Idempotency-Key HTTP Header Field", sections 2.6 and 2.7.
"""

import hmac
import logging
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from abeyance.crypto.sealing import NONCE_BYTES, RunKey
from abeyance.engine.keyring import KeyRing
from abeyance.errors import ContentErasedError, VerificationError
from abeyance.journal.replies import NOT_KEPT, ReplyStore, StoredReply
from abeyance.journal.store import KeyStore, ReplyRow
from abeyance.world import World, to_micros

KEPT_FOR: Final = timedelta(hours=24)
MAX_REPLY_BYTES: Final = 262_144
# How long a request whose effect isn't a run's counts as under way, if nothing was heard of it since.
UNDER_WAY_FOR: Final = timedelta(seconds=60)

_log = logging.getLogger("abeyance.replies")
_PURPOSE = b"abeyance/idempotency/v1"


class Replies:
    """The idempotency keys of one deployment. Made by `open_replies`."""

    def __init__(
        self, store: ReplyStore, keys: KeyRing, world: World, *, matching: bytes, sealing: bytes
    ) -> None:
        self.store = store
        self.world = world
        self._keys = keys
        self._matching = matching
        self._own_key = RunKey(0, sealing)

    def use(self, *, workspace: str, holder: str, path: str, key: str, request: bytes) -> "UsedKey":
        """The use of a key, now. `request` is all that makes the request this one."""
        now = self.world.now()
        return UsedKey(
            self,
            ReplyRow(
                scope=self._digest(
                    b"scope", workspace.encode(), holder.encode(), path.encode(), key.encode()
                ),
                request=self._digest(b"request", request),
                created=to_micros(now),
                expires=to_micros(now + KEPT_FOR),
            ),
        )

    def _digest(self, *parts: bytes) -> bytes:
        """HMAC-SHA256 over the parts, each with its length before it."""
        message = b"".join(len(part).to_bytes(8) + part for part in (_PURPOSE, *parts))
        return hmac.digest(self._matching, message, sha256)

    async def remove_expired(self, limit: int) -> int:
        """Remove up to `limit` keys that have expired; how many."""
        return await self.store.remove_expired(to_micros(self.world.now()), limit)

    async def seal(self, row: ReplyRow, run_id: UUID | None, plain: bytes) -> bytes | None:
        """The plain reply, sealed for this row; `None` if its run's key is gone."""
        try:
            key = await self._key(None if run_id is None else await self.store.key_of(run_id))
        except ContentErasedError:
            return None
        return key.seal(self.world.random_bytes(NONCE_BYTES), plain, row.scope + row.request)

    async def open(self, scope: bytes, stored: StoredReply) -> bytes | None:
        """The plain reply; `None` if there is none, its run's key is gone, or it isn't what was sealed."""
        if not stored.reply or (stored.run_id is not None and stored.key_id is None):
            return None
        try:
            return (await self._key(stored.key_id)).open(stored.reply, scope + stored.request)
        except ContentErasedError:
            return None
        except VerificationError:
            _log.error("ALARM: a kept reply was changed; it isn't sent again")
            return None

    async def _key(self, key_id: int | None) -> RunKey:
        return self._own_key if key_id is None else await self._keys.get(key_id)


@dataclass(frozen=True, slots=True)
class UsedKey:
    """A request's idempotency key. `row` goes in with the request's effect."""

    replies: Replies
    row: ReplyRow

    async def find(self) -> StoredReply | None:
        """The request that used the key before; `None` if there was none in the last 24 hours."""
        return await self.replies.store.find(self.row.scope, to_micros(self.replies.world.now()))

    def matches(self, stored: StoredReply) -> bool:
        """Whether that was the same request."""
        return hmac.compare_digest(stored.request, self.row.request)

    def is_under_way(self, stored: StoredReply) -> bool:
        """Whether an effect that isn't a run's may still come of that request."""
        since = timedelta(microseconds=to_micros(self.replies.world.now()) - stored.created)
        return stored.reply is None and since < UNDER_WAY_FOR

    async def open(self, stored: StoredReply) -> bytes | None:
        """What that request was answered, if it was kept and can be read."""
        return await self.replies.open(self.row.scope, stored)

    async def keep(self, run_id: UUID | None, plain: bytes | None) -> None:
        """Keep what the request was answered, or that its answer isn't kept. Too long a one isn't."""
        sealed: bytes | None = NOT_KEPT
        if plain is not None and len(plain) <= MAX_REPLY_BYTES:
            sealed = await self.replies.seal(self.row, run_id, plain)
        elif plain is not None and run_id is not None:
            sealed = None  # the run is shown instead
        if sealed is not None:
            await self.replies.store.keep(self.row, run_id, sealed)

    async def reserve(self) -> bool:
        """Use the key for an effect that isn't a run's append; whether nobody had used it."""
        return await self.replies.store.reserve(self.row)

    async def free(self) -> None:
        """Nothing came of the request: the key is as good as new."""
        await self.replies.store.free(self.row)


async def open_replies(store: ReplyStore, secrets: KeyStore, keys: KeyRing, world: World) -> Replies:
    """The idempotency keys of the deployment that has these secrets. `keys` opens replies about runs."""
    matching = await secrets.secret("idempotency-matching")
    sealing = await secrets.secret("idempotency-sealing")
    return Replies(store, keys, world, matching=matching, sealing=sealing)
