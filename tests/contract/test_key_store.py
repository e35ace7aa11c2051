"""What every key store promises."""

import asyncio

import pytest

from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.store import KeyStore
from tests.contract.conftest import OpenKeys

pytestmark = pytest.mark.anyio


class TestTake:
    async def test_keys_are_new_and_kept(self, keys: KeyStore) -> None:
        taken = await keys.take(3)

        assert 3 == len({key_id for key_id, _ in taken}) == len({key for _, key in taken})
        assert {32} == {len(key) for _, key in taken}
        assert dict(taken) == await keys.get([key_id for key_id, _ in taken])

    async def test_more_than_a_block_at_once(self, keys: KeyStore) -> None:
        taken = dict(await keys.take(700))

        assert 700 == len(taken)
        assert taken == await keys.get(list(taken))
        assert [] == await keys.take(0)

    async def test_nobody_gets_a_key_that_somebody_has(self, keys: KeyStore) -> None:
        taken = await asyncio.gather(*(keys.take(7) for _ in range(100)))

        ids = [key_id for each in taken for key_id, _ in each]
        assert 700 == len(set(ids))

    async def test_a_restart_takes_nothing_twice(self, open_keys: OpenKeys) -> None:
        before = await open_keys()
        first = dict(await before.take(10))
        await before.delete([max(first)])
        await before.close()

        after = await open_keys()
        second = dict(await after.take(300))
        kept = await after.get(list(first))
        await after.close()

        assert not set(first) & set(second)
        assert {key_id: key for key_id, key in first.items() if key_id != max(first)} == kept


class TestDelete:
    async def test_a_deleted_key_is_gone(self, keys: KeyStore) -> None:
        (one, key), (other, _) = await keys.take(2)
        await keys.get([one, other])

        await keys.delete([other])

        assert {one: key} == await keys.get([one, other])

    async def test_deleting_again_or_nothing_is_fine(self, keys: KeyStore) -> None:
        ((one, _),) = await keys.take(1)

        await keys.delete([one])
        await keys.delete([one, 1 << 40])
        await keys.delete([])

        assert {} == await keys.get([one])

    async def test_the_newest_key_deleted_its_id_never_comes_back(self, open_keys: OpenKeys) -> None:
        before = await open_keys()
        taken = dict(await before.take(256))
        await before.delete(list(taken))
        await before.close()

        after = await open_keys()
        again = dict(await after.take(256))
        await after.close()

        assert max(taken) < min(again)


class TestSecret:
    async def test_a_secret_is_made_once_by_name(self, keys: KeyStore) -> None:
        both = await asyncio.gather(keys.secret("links"), keys.secret("links"), keys.secret("idempotency"))

        assert both[0] == both[1] != both[2]
        assert {32} == {len(each) for each in both}

    async def test_a_secret_outlives_a_restart(self, open_keys: OpenKeys) -> None:
        before = await open_keys()
        made = await before.secret("links")
        await before.close()

        after = await open_keys()
        found = await after.secret("links")
        await after.close()

        assert made == found


class TestMasterKey:
    async def test_another_master_key_opens_nothing(self, open_keys: OpenKeys) -> None:
        store = await open_keys()
        await store.take(1)
        await store.close()

        with pytest.raises(ConfigurationError, match="another master"):
            await open_keys(bytes(32))


class TestClosed:
    async def test_a_closed_key_store_is_unavailable(self, keys: KeyStore) -> None:
        ((one, _),) = await keys.take(1)
        await keys.close()
        await keys.close()

        for attempt in (keys.take(300), keys.delete([one]), keys.secret("links"), keys.get([one])):
            with pytest.raises(StoreUnavailableError):
                await attempt
