"""What only SQLite's key store promises: its files, its epochs, and what is left of a deleted key."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from abeyance.crypto.sealing import unwrap_key
from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.sqlite import SQLiteKeyStore, open_sqlite_keys
from abeyance.world import SystemWorld

pytestmark = pytest.mark.anyio

MASTER_KEY = bytes(range(32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
async def keys(anyio_backend: str, folder: Path) -> AsyncIterator[SQLiteKeyStore]:
    opened = await open_sqlite_keys(folder, MASTER_KEY, SystemWorld())
    yield opened
    await opened.close()


async def reopen(folder: Path) -> SQLiteKeyStore:
    return await open_sqlite_keys(folder, MASTER_KEY, SystemWorld())


def rows(folder: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(folder / "keys.sqlite3")
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


class TestFiles:
    async def test_all_of_them_are_private(self, keys: SQLiteKeyStore, folder: Path) -> None:
        await keys.take(1)

        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}

        assert {"keys.sqlite3", "epoch-1.key", "keys.lock", "keys.sqlite3-journal"} == set(modes)
        assert {0o600} == set(modes.values())
        assert 0o700 == folder.stat().st_mode & 0o777

    async def test_a_folder_that_was_open_to_others_is_closed(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)

        await (await reopen(folder)).close()

        assert 0o700 == folder.stat().st_mode & 0o777

    async def test_a_folder_of_other_things_is_refused_and_left_as_it_is(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)
        (folder / "notes.txt").write_bytes(b"")

        with pytest.raises(ConfigurationError, match="folder of their own"):
            await reopen(folder)

        assert 0o755 == folder.stat().st_mode & 0o777

    async def test_its_file_may_have_another_name(self, folder: Path) -> None:
        store = await open_sqlite_keys(folder, MASTER_KEY, SystemWorld(), database="mine.db")
        await store.take(1)
        await store.close()

        assert (folder / "mine.db").stat().st_size > 0
        assert not (folder / "keys.sqlite3").exists()

    async def test_no_key_is_in_the_clear(self, keys: SQLiteKeyStore, folder: Path) -> None:
        taken = await keys.take(256)
        secret = await keys.secret("links")

        stored = everything(folder)

        assert not any(key in stored for _, key in taken)
        assert secret not in stored
        assert {(40,)} == set(rows(folder, "SELECT length(wrapped) FROM run_keys"))

    async def test_a_second_process_is_refused(self, keys: SQLiteKeyStore, folder: Path) -> None:
        with pytest.raises(ConfigurationError, match="another process"):
            await reopen(folder)

    async def test_a_network_disk_is_refused(self, folder: Path) -> None:
        with pytest.raises(ConfigurationError, match="cifs"):
            await open_sqlite_keys(folder, MASTER_KEY, SystemWorld(), filesystem_type=lambda _: "cifs")

    async def test_the_master_key_has_32_bytes(self, folder: Path) -> None:
        with pytest.raises(ConfigurationError, match="31 bytes"):
            await open_sqlite_keys(folder, bytes(31), SystemWorld())


class TestBlocks:
    async def test_one_commit_makes_256_keys(self, keys: SQLiteKeyStore, folder: Path) -> None:
        await keys.take(1)
        await keys.take(255)
        assert [(256,)] == rows(folder, "SELECT count(*) FROM run_keys")

        await keys.take(1)
        assert [(512,)] == rows(folder, "SELECT count(*) FROM run_keys")

    async def test_a_full_disk_makes_none_and_works_later(self, keys: SQLiteKeyStore, folder: Path) -> None:
        await keys._run(lambda: keys._connection.execute("PRAGMA max_page_count = 1").fetchall())

        with pytest.raises(StoreUnavailableError, match="full"):
            await keys.take(5_000)

        await keys._run(lambda: keys._connection.execute("PRAGMA max_page_count = 1000000").fetchall())
        assert [1] == [key_id for key_id, _ in await keys.take(1)]


class TestHalfAStore:
    async def test_a_lost_epoch_key_is_never_replaced(self, folder: Path) -> None:
        store = await reopen(folder)
        await store.take(1)
        await store.close()
        (folder / "epoch-1.key").unlink()

        with pytest.raises(ConfigurationError, match=r"epoch-1\.key can't be read"):
            await reopen(folder)
        assert not (folder / "epoch-1.key").exists()

    async def test_a_lost_database_is_never_replaced(self, folder: Path) -> None:
        await (await reopen(folder)).close()
        (folder / "keys.sqlite3").unlink()

        with pytest.raises(ConfigurationError, match="restore it"):
            await reopen(folder)
        assert not (folder / "keys.sqlite3").exists()

    async def test_a_damaged_epoch_key_is_a_clear_error(self, folder: Path) -> None:
        await (await reopen(folder)).close()
        (folder / "epoch-1.key").write_bytes(b"short")

        with pytest.raises(ConfigurationError, match="damaged"):
            await reopen(folder)

    async def test_a_first_start_that_was_cut_off_is_finished(self, folder: Path) -> None:
        await (await reopen(folder)).close()
        connection = sqlite3.connect(folder / "keys.sqlite3", isolation_level=None)
        connection.execute("UPDATE epoch SET number = 0")
        connection.close()
        (folder / "epoch-2.half").write_bytes(b"cut")

        store = await reopen(folder)
        await store.take(1)
        await store.close()

        assert [(1,)] == rows(folder, "SELECT number FROM epoch")
        assert not (folder / "epoch-2.half").exists()


class TestEpoch:
    async def test_after_a_rotation_old_bytes_are_opened_by_nothing(
        self, keys: SQLiteKeyStore, folder: Path
    ) -> None:
        (one, key), (gone, lost) = await keys.take(2)
        old_epoch = unwrap_key(MASTER_KEY, (folder / "epoch-1.key").read_bytes())
        ((residue,),) = rows(folder, f"SELECT wrapped FROM run_keys WHERE key_id = {gone}")
        assert lost == unwrap_key(old_epoch, residue)
        secret = await keys.secret("links")
        await keys.delete([gone])

        assert 2 == await keys.rotate_epoch()

        new_epoch = unwrap_key(MASTER_KEY, (folder / "epoch-2.key").read_bytes())
        assert not (folder / "epoch-1.key").exists()
        assert old_epoch not in everything(folder)
        with pytest.raises(ConfigurationError):
            unwrap_key(new_epoch, residue)
        assert ({one: key}, secret) == (await keys.get([one, gone]), await keys.secret("links"))

    async def test_every_key_is_wrapped_anew(self, folder: Path) -> None:
        store = await reopen(folder)
        taken = dict(await store.take(2_300))
        await store.rotate_epoch()
        more = dict(await store.take(1))
        await store.close()

        again = await reopen(folder)
        found = await again.get([*taken, *more])
        await again.close()

        assert taken | more == found

    async def test_a_rotation_that_was_cut_off_is_undone_or_finished(self, folder: Path) -> None:
        store = await reopen(folder)
        taken = dict(await store.take(3))
        await store.close()
        (folder / "epoch-2.key").write_bytes(b"made, but not used yet")

        again = await reopen(folder)
        kept = await again.get(list(taken))
        await again.rotate_epoch()
        await again.close()

        assert taken == kept
        assert ["epoch-2.key"] == [path.name for path in folder.glob("epoch*")]

    async def test_a_rotation_that_fails_changes_nothing(self, keys: SQLiteKeyStore, folder: Path) -> None:
        taken = dict(await keys.take(3))
        await keys._run(lambda: keys._connection.execute("PRAGMA query_only = ON"))

        with pytest.raises(StoreUnavailableError):
            await keys.rotate_epoch()

        await keys._run(lambda: keys._connection.execute("PRAGMA query_only = OFF"))
        assert taken == await keys.get(list(taken))
        assert 2 == await keys.rotate_epoch()
        assert taken == await keys.get(list(taken))


class TestDelete:
    async def test_a_deleted_key_leaves_no_bytes_in_the_database(
        self, keys: SQLiteKeyStore, folder: Path
    ) -> None:
        taken = await keys.take(256)
        wrapped: dict[int, bytes] = dict(rows(folder, "SELECT key_id, wrapped FROM run_keys"))
        gone = [key_id for key_id, _ in taken[::2]]

        await keys.delete(gone)

        stored = everything(folder)
        assert not any(wrapped[key_id] in stored for key_id in gone)
        assert all(wrapped[key_id] in stored for key_id, _ in taken[1::2])

    async def test_a_read_that_overlaps_a_deletion_brings_nothing_back(self, folder: Path) -> None:
        store = await reopen(folder)
        ids = [key_id for key_id, _ in await store.take(256)]
        await store.close()
        store = await reopen(folder)

        await asyncio.gather(store.get(ids), store.delete(ids), store.get(ids))

        assert {} == await store.get(ids)
        await store.close()
