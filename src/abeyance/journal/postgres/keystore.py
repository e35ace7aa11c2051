"""Run keys on PostgreSQL, apart from the journal: schema `abeyance_keys` of the same or another database.

Every key is wrapped by an epoch key, which the master key wraps (RFC 3394). Deleting a key writes zeros
over it; what is left of it in the write-ahead log, in dead rows and in archives can't be opened once
`rotate_epoch` has wrapped the living keys anew and dropped the old epoch key. The epoch keys themselves are
rows too, so that all processes share them without a shared file: who holds the master key *and* a log or
backup from before a rotation can still open what was deleted since. Keep the key database's backups short,
or the master key in a service that logs and limits its use.

Keys come in blocks of 256, one commit each. A block belongs to one process; what it doesn't use is garbage.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any

from abeyance.crypto.sealing import KEY_BYTES, unwrap_key, wrap_key
from abeyance.errors import StoreUnavailableError
from abeyance.journal.postgres.clock import DatabaseClock
from abeyance.journal.postgres.connecting import open_session, read_rows
from abeyance.journal.postgres.migrations import KEYS
from abeyance.journal.postgres.pool import Pool
from abeyance.journal.postgres.session import SessionSettings
from abeyance.journal.postgres.wire import Statement, rows_of, statement, value_of
from abeyance.world import World

BLOCK_KEYS = 256
WRAPPED_BYTES = 40
DELETED = bytes(WRAPPED_BYTES)
ATTEMPTS = 3
KEY_SETTINGS = SessionSettings(connections=2)

_EPOCHS = statement("SELECT epoch, wrapped FROM abeyance_keys.epochs")
_ADD_EPOCH = value_of("abeyance_keys.add_epoch", "bigint", "bytea")
_DROP_EPOCHS = statement("DELETE FROM abeyance_keys.epochs WHERE epoch < $1", "bigint")
_ADD_BLOCK = value_of("abeyance_keys.add_block", "bigint", "bytea")
_GET_KEYS = rows_of("abeyance_keys.get_keys", "bigint[]")
_DELETE_KEYS = value_of("abeyance_keys.delete_keys", "bigint[]")
_OLD_BLOCK = statement(
    "SELECT block, epoch, wrapped FROM abeyance_keys.blocks WHERE epoch < $1 AND block > $2"
    " ORDER BY block LIMIT 1",
    "bigint", "bigint",
)  # fmt: skip
_REWRAP_BLOCK = value_of("abeyance_keys.rewrap_block", "bigint", "bytea", "bigint", "bytea")
_SECRET = statement("SELECT epoch, wrapped FROM abeyance_keys.secrets WHERE name = $1", "text")
_ADD_SECRET = value_of("abeyance_keys.add_secret", "bigint", "text", "bytea")
_OLD_SECRETS = statement("SELECT name, epoch, wrapped FROM abeyance_keys.secrets WHERE epoch < $1", "bigint")
_REWRAP_SECRET = statement(
    "UPDATE abeyance_keys.secrets SET epoch = $1, wrapped = $3 WHERE name = $2", "bigint", "text", "bytea"
)
_KEPT = statement("SELECT note FROM abeyance_keys.kept_checkpoint")
_KEEP = statement(
    "INSERT INTO abeyance_keys.kept_checkpoint (note, size) VALUES ($1, $2) ON CONFLICT (one) DO UPDATE"
    " SET note = excluded.note, size = excluded.size WHERE kept_checkpoint.size < excluded.size",
    "text", "bigint",
)  # fmt: skip


async def open_postgres_keys(
    url: str, master_key: bytes, world: World, settings: SessionSettings = KEY_SETTINGS
) -> "PostgresKeyStore":
    """The key store in the database at `url`. `master_key` is 32 bytes, `world` the source of new keys.

    Raises `ConfigurationError` if the tables aren't there or were made under another master key.
    """
    store = PostgresKeyStore(url, master_key, world, settings)
    try:
        ((version,),) = await store.fetch(KEYS.select_version)
        KEYS.check_version(version)
        await store.load_epochs()
    except BaseException:
        await store.close()
        raise
    return store


class PostgresKeyStore:
    """See `abeyance.journal.store.KeyStore`. Made by `open_postgres_keys`."""

    def __init__(self, url: str, master_key: bytes, world: World, settings: SessionSettings) -> None:
        self._master_key = master_key
        self._world = world
        self._epochs: dict[int, bytes] = {}
        self._unused: list[tuple[int, bytes]] = []
        self._process = os.getpid()
        self._refilling = asyncio.Lock()
        clock = DatabaseClock(world)
        self._pool = Pool(
            lambda: open_session(url, settings, clock), settings.connections, settings.statement_timeout_s
        )

    async def fetch(self, query: Statement, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        return read_rows(await self._pool.run(query, *values))

    async def load_epochs(self) -> None:
        """Read the epoch keys; make the first if there is none."""
        rows = await self.fetch(_EPOCHS)
        if not rows:
            # Of several processes one makes the first epoch; the others read it.
            await self.fetch(_ADD_EPOCH, 1, wrap_key(self._master_key, self._world.random_bytes(KEY_BYTES)))
            rows = await self.fetch(_EPOCHS)
        self._epochs = {epoch: unwrap_key(self._master_key, wrapped) for epoch, wrapped in rows}

    async def take(self, count: int) -> list[tuple[int, bytes]]:
        """See `KeyStore.take`."""
        async with self._refilling:
            if self._process != os.getpid():  # the parent goes on using its block
                self._process, self._unused = os.getpid(), []
            while len(self._unused) < count:
                self._unused += await self._make_block()
            taken, self._unused = self._unused[:count], self._unused[count:]
        return taken

    async def _make_block(self) -> list[tuple[int, bytes]]:
        keys = [self._world.random_bytes(KEY_BYTES) for _ in range(BLOCK_KEYS)]
        for _ in range(ATTEMPTS):
            epoch = max(self._epochs)
            wrapping = self._epochs[epoch]
            block = b"".join([wrap_key(wrapping, key) for key in keys])
            ((number,),) = await self.fetch(_ADD_BLOCK, epoch, block)
            if number is not None:
                return [(number * BLOCK_KEYS + place, key) for place, key in enumerate(keys)]
            await self.load_epochs()  # another process has rotated
        raise _restless()

    async def get(self, key_ids: Sequence[int]) -> dict[int, bytes]:
        """See `KeyStore.get`."""
        for _ in range(ATTEMPTS):
            rows = await self.fetch(_GET_KEYS, key_ids)
            if await self._knows(epoch for _, epoch, _ in rows):
                return {key_id: self._unwrap(epoch, wrapped) for key_id, epoch, wrapped in rows}
        raise _restless()

    async def delete(self, key_ids: Sequence[int]) -> None:
        """See `KeyStore.delete`. `rotate_epoch` makes worthless what is left of them elsewhere."""
        await self.fetch(_DELETE_KEYS, key_ids)

    async def secret(self, name: str) -> bytes:
        """See `KeyStore.secret`."""
        for _ in range(ATTEMPTS):
            rows = await self.fetch(_SECRET, name)
            if rows and await self._knows(epoch for epoch, _ in rows):
                return self._unwrap(*rows[0])
            if not rows:
                epoch = max(self._epochs)
                made = wrap_key(self._epochs[epoch], self._world.random_bytes(KEY_BYTES))
                await self.fetch(_ADD_SECRET, epoch, name, made)
                await self.load_epochs()
        raise _restless()

    async def kept_checkpoint(self) -> str | None:
        """See `KeyStore.kept_checkpoint`."""
        rows = await self.fetch(_KEPT)
        return rows[0][0] if rows else None

    async def keep_checkpoint(self, note: str, size: int) -> None:
        """See `KeyStore.keep_checkpoint`."""
        await self.fetch(_KEEP, note, size)

    async def _knows(self, epochs: Iterable[int]) -> bool:
        """Whether these epoch keys are known; they are read anew if one isn't."""
        wanted = set(epochs)
        if not wanted <= self._epochs.keys():
            await self.load_epochs()
        return wanted <= self._epochs.keys()

    def _unwrap(self, epoch: int, wrapped: bytes) -> bytes:
        return unwrap_key(self._epochs[epoch], wrapped)

    async def rotate_epoch(self) -> int:
        """Wrap every living key by a new epoch key and drop the old ones; the new epoch.

        May be interrupted and begun again: until the end both epochs open what they wrapped.
        """
        await self.load_epochs()
        epoch = max(self._epochs) + 1
        await self.fetch(_ADD_EPOCH, epoch, wrap_key(self._master_key, self._world.random_bytes(KEY_BYTES)))
        await self.load_epochs()
        await self._rewrap_blocks(epoch)
        for name, old, wrapped in await self.fetch(_OLD_SECRETS, epoch):
            await self.fetch(_REWRAP_SECRET, epoch, name, self._rewrapped(epoch, old, wrapped))
        await self.fetch(_DROP_EPOCHS, epoch)
        await self.load_epochs()
        return epoch

    async def _rewrap_blocks(self, epoch: int) -> None:
        block = -1
        while rows := await self.fetch(_OLD_BLOCK, epoch, block):
            ((number, old, wrapped),) = rows
            keys = [wrapped[start : start + WRAPPED_BYTES] for start in range(0, len(wrapped), WRAPPED_BYTES)]
            anew = b"".join([key if key == DELETED else self._rewrapped(epoch, old, key) for key in keys])
            # Somebody may have deleted a key in it meanwhile: then it is read again.
            if await self.fetch(_REWRAP_BLOCK, number, wrapped, epoch, anew) == [(True,)]:
                block = number

    def _rewrapped(self, epoch: int, old: int, wrapped: bytes) -> bytes:
        return wrap_key(self._epochs[epoch], self._unwrap(old, wrapped))

    async def close(self) -> None:
        """See `KeyStore.close`."""
        await self._pool.close()


def _restless() -> StoreUnavailableError:
    return StoreUnavailableError("the key store's epoch keys change or are missing")
