"""The keys on PostgreSQL: blocks, epochs, and what a deletion leaves."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from abeyance.errors import ConfigurationError
from abeyance.journal.postgres import PostgresKeyStore, migrate_keys, open_postgres_keys
from abeyance.journal.postgres.keystore import BLOCK_KEYS
from tests.integration.postgres.samples import WORLD

pytestmark = pytest.mark.anyio

MASTER = bytes(range(32))


@pytest.fixture
def keys_url(postgres_url: str) -> str:
    migrate_keys(postgres_url)
    return postgres_url


@pytest.fixture
async def stores(keys_url: str, anyio_backend: str) -> AsyncIterator[list[PostgresKeyStore]]:
    """Three processes' stores, opened at once on an empty database."""
    opened = await asyncio.gather(*(open_postgres_keys(keys_url, MASTER, WORLD) for _ in range(3)))
    yield list(opened)
    for store in opened:
        await store.close()


def read_blocks(url: str) -> list[bytes]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT wrapped FROM abeyance_keys.blocks ORDER BY block").fetchall()
    return [bytes(row[0]) for row in rows]


class TestBlocks:
    async def test_no_two_processes_get_one_key(self, stores: list[PostgresKeyStore]) -> None:
        taken = await asyncio.gather(*(store.take(300) for store in stores for _ in range(2)))

        keys = [key for each in taken for key in each]
        assert 6 * 300 == len({key_id for key_id, _ in keys}) == len({key for _, key in keys})

    async def test_a_block_is_one_commit(self, stores: list[PostgresKeyStore], keys_url: str) -> None:
        for _ in range(BLOCK_KEYS):
            await stores[0].take(1)

        assert [BLOCK_KEYS * 40] == [len(block) for block in read_blocks(keys_url)]

    async def test_no_key_is_stored_as_it_is(self, stores: list[PostgresKeyStore], keys_url: str) -> None:
        keys = await stores[0].take(BLOCK_KEYS)

        stored = b"".join(read_blocks(keys_url))

        assert not any(key in stored for _, key in keys)

    async def test_all_processes_have_one_secret(self, stores: list[PostgresKeyStore]) -> None:
        secrets = await asyncio.gather(*(store.secret("links") for store in stores))

        assert 1 == len(set(secrets))
        assert secrets[0] != await stores[0].secret("idempotency")


class TestRotation:
    async def test_living_keys_open_and_deleted_ones_stay_deleted(
        self, stores: list[PostgresKeyStore], keys_url: str
    ) -> None:
        one, other, _ = stores
        keys = dict(await one.take(300) + await other.take(300))
        deleted, *living = keys
        secret = await one.secret("links")
        before = read_blocks(keys_url)
        await one.delete([deleted])

        await one.rotate_epoch()

        expected = {key_id: keys[key_id] for key_id in living}
        for store in stores:
            assert expected == await store.get(list(keys))
            assert secret == await store.secret("links")
        assert not set(before) & set(read_blocks(keys_url))

    async def test_the_old_epoch_key_is_gone(self, stores: list[PostgresKeyStore], keys_url: str) -> None:
        await stores[0].take(1)
        await stores[0].rotate_epoch()
        newest = await stores[1].rotate_epoch()

        with psycopg.connect(keys_url) as connection:
            epochs = connection.execute("SELECT epoch FROM abeyance_keys.epochs").fetchall()
            used = connection.execute("SELECT DISTINCT epoch FROM abeyance_keys.blocks").fetchall()
        assert [(newest,)] == epochs == used

    async def test_keys_that_are_made_meanwhile_survive(self, stores: list[PostgresKeyStore]) -> None:
        async def take_blocks(store: PostgresKeyStore) -> list[tuple[int, bytes]]:
            return [key for _ in range(8) for key in await store.take(BLOCK_KEYS)]

        one, other, third = stores
        await one.take(2_000)
        made, others, *_ = await asyncio.gather(
            take_blocks(one), take_blocks(other), third.rotate_epoch(), third.rotate_epoch()
        )

        keys = dict(made + others)
        assert keys == await third.get(list(keys))

    async def test_a_key_that_is_deleted_meanwhile_stays_deleted(
        self, stores: list[PostgresKeyStore]
    ) -> None:
        one, other, third = stores
        keys = [key_id for key_id, _ in await one.take(3_000)]

        async def delete_all() -> None:
            for key_id in keys[::50]:
                await other.delete([key_id])

        await asyncio.gather(delete_all(), third.rotate_epoch(), third.rotate_epoch())

        assert set(keys) - set(keys[::50]) == (await one.get(keys)).keys()


async def test_another_master_key_is_refused(stores: list[PostgresKeyStore], keys_url: str) -> None:
    with pytest.raises(ConfigurationError, match="master"):
        await open_postgres_keys(keys_url, bytes(32), WORLD)
