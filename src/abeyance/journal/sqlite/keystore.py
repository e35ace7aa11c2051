"""The key store on SQLite: a database of its own, in a folder of its own, that only its owner may read.

Each run key is wrapped (RFC 3394) by the epoch key, which is in a small file beside the database and is
itself wrapped by the master key. So a deleted key's bytes, wherever the disk still has them, are opened by
nothing once the epoch was rotated. The order of the first start is: database (epoch 0), the epoch's file,
epoch 1. Thus neither of the two is ever made anew beside the other.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from abeyance.crypto.sealing import KEY_BYTES, unwrap_key, wrap_key
from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.sqlite.connection import create_file, open_connection
from abeyance.journal.sqlite.epochs import EpochFiles
from abeyance.journal.sqlite.faults import translated
from abeyance.journal.sqlite.lock import FilesystemType, FolderLock, mounted_filesystem
from abeyance.journal.sqlite.schema import KEY_STORE
from abeyance.world import World

BLOCK = 256
DATABASE = "keys.sqlite3"
LOCK = "keys.lock"
_MOST_CACHED = 8_192
_PAGE = 1_000

T = TypeVar("T")


class SQLiteKeyStore:
    """A `KeyStore` on one file. Made by `open_sqlite_keys`; belongs to the loop that opened it.

    One thread does all work on the database, so that what it keeps of keys in memory is in step with it.
    """

    def __init__(
        self, connection: sqlite3.Connection, epochs: EpochFiles, world: World, lock: FolderLock
    ) -> None:
        self._connection = connection
        self._epochs = epochs
        self._epoch_key = epochs.read(_epoch_number(connection))
        self._world = world
        self._lock = lock
        self._unused: list[tuple[int, bytes]] = []
        self._taking = asyncio.Lock()
        self._known: dict[int, bytes] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="key-store")
        self._closed = False

    async def take(self, count: int) -> list[tuple[int, bytes]]:
        """See `KeyStore.take`. Keys that a process made and didn't use are never used."""
        self._check_open()
        async with self._taking:
            missing = count - len(self._unused)
            if missing > 0:
                blocks = (missing + BLOCK - 1) // BLOCK
                self._unused += await self._run(lambda: self._make_keys(blocks * BLOCK))
            taken, self._unused = self._unused[:count], self._unused[count:]
            return taken

    async def get(self, key_ids: Sequence[int]) -> dict[int, bytes]:
        """See `KeyStore.get`. A key that was asked for lately is answered from memory."""
        self._check_open()
        known = {key_id: self._known.get(key_id) for key_id in key_ids}
        missing = [key_id for key_id, key in known.items() if key is None]
        read = await self._run(lambda: self._read_keys(missing)) if missing else {}
        return {key_id: key for key_id, key in known.items() if key is not None} | read

    async def delete(self, key_ids: Sequence[int]) -> None:
        """See `KeyStore.delete`."""
        ids = list(key_ids)
        await self._run(lambda: self._delete_keys(ids))

    async def secret(self, name: str) -> bytes:
        """See `KeyStore.secret`."""
        return await self._run(lambda: self._find_or_make_secret(name))

    async def kept_checkpoint(self) -> str | None:
        """See `KeyStore.kept_checkpoint`."""
        statement = "SELECT note FROM kept_checkpoint"
        row = await self._run(lambda: self._connection.execute(statement).fetchone())
        return None if row is None else row[0]

    async def keep_checkpoint(self, note: str, size: int) -> None:
        """See `KeyStore.keep_checkpoint`."""
        await self._run(lambda: self._keep_checkpoint(note, size))

    async def rotate_epoch(self) -> int:
        """Wrap every key anew and destroy the old epoch's key: its number. After this, bytes of deleted keys
        that the disk, its journal or a copy of it still holds are opened by nothing.
        """
        return await self._run(self._rotate)

    async def close(self) -> None:
        """See `KeyStore.close`. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._thread.shutdown)
        self._connection.close()
        self._unused.clear()
        self._known.clear()
        self._lock.release()

    async def _run(self, work: Callable[[], T]) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._translated, work)

    @staticmethod
    def _translated(work: Callable[[], T]) -> T:
        try:
            with translated():
                return work()
        except OSError as error:
            raise StoreUnavailableError("the key store's folder can't be written right now") from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError("the key store is closed")

    def _make_keys(self, count: int) -> list[tuple[int, bytes]]:
        made: list[tuple[int, bytes]] = []
        with _committed(self._connection) as cursor:
            for _ in range(count):
                key = self._world.random_bytes(KEY_BYTES)
                cursor.execute("INSERT INTO run_keys (wrapped) VALUES (?)", (wrap_key(self._epoch_key, key),))
                made.append((cursor.lastrowid or 0, key))
        return made

    def _read_keys(self, key_ids: list[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for key_id in key_ids:
            statement = "SELECT wrapped FROM run_keys WHERE key_id = ?"
            row = self._connection.execute(statement, (key_id,)).fetchone()
            if row is not None:
                found[key_id] = unwrap_key(self._epoch_key, row[0])
        if len(self._known) + len(found) > _MOST_CACHED:
            self._known.clear()
        self._known.update(found)
        return found

    def _delete_keys(self, key_ids: list[int]) -> None:
        for key_id in key_ids:
            self._known.pop(key_id, None)
        with _committed(self._connection) as cursor:
            cursor.executemany("DELETE FROM run_keys WHERE key_id = ?", [(key_id,) for key_id in key_ids])

    def _find_or_make_secret(self, name: str) -> bytes:
        with _committed(self._connection) as cursor:
            row = cursor.execute("SELECT wrapped FROM secrets WHERE name = ?", (name,)).fetchone()
            if row is not None:
                return unwrap_key(self._epoch_key, row[0])
            made = self._world.random_bytes(KEY_BYTES)
            statement = "INSERT INTO secrets (name, wrapped) VALUES (?, ?)"
            cursor.execute(statement, (name, wrap_key(self._epoch_key, made)))
            return made

    def _keep_checkpoint(self, note: str, size: int) -> None:
        with _committed(self._connection) as cursor:
            row = cursor.execute("SELECT size FROM kept_checkpoint").fetchone()
            if row is None or row[0] < size:
                cursor.execute("DELETE FROM kept_checkpoint")
                cursor.execute("INSERT INTO kept_checkpoint (size, note) VALUES (?, ?)", (size, note))

    def _rotate(self) -> int:
        old = _epoch_number(self._connection)
        self._epochs.destroy_others(old)
        key = self._world.random_bytes(KEY_BYTES)
        self._epochs.write(old + 1, key)
        try:
            with _committed(self._connection) as cursor:
                self._rewrap(cursor, "run_keys", "key_id", key)
                self._rewrap(cursor, "secrets", "name", key)
                cursor.execute("UPDATE epoch SET number = ?", (old + 1,))
        finally:
            # A commit that failed may have landed: what is stored decides.
            number = _epoch_number(self._connection)
            self._epoch_key = self._epochs.read(number)
        self._epochs.destroy_others(number)
        return number

    def _rewrap(self, cursor: sqlite3.Cursor, table: str, name: str, key: bytes) -> None:
        page = f"SELECT {name}, wrapped FROM {table} WHERE {name} > ? ORDER BY {name} LIMIT {_PAGE}"
        last: object = "" if name == "name" else -1
        while rows := cursor.execute(page, (last,)).fetchall():
            anew = [(wrap_key(key, unwrap_key(self._epoch_key, old)), row) for row, old in rows]
            cursor.executemany(f"UPDATE {table} SET wrapped = ? WHERE {name} = ?", anew)
            last = rows[-1][0]


async def open_sqlite_keys(
    folder: Path,
    master_key: bytes,
    world: World,
    *,
    database: str = DATABASE,
    filesystem_type: FilesystemType = mounted_filesystem,
) -> SQLiteKeyStore:
    """Open the key store in `folder` (made with mode 0700), whose epoch key `master_key` (32 bytes) wraps.

    `database` is the name of its file. The folder is the key store's own.

    Raises `ConfigurationError` under another master key, if half of the store is missing, or if another
    process has it.
    """
    if len(master_key) != KEY_BYTES:
        raise ConfigurationError(f"the master key has {len(master_key)} bytes, it must have {KEY_BYTES}")
    lock = await asyncio.to_thread(FolderLock.acquire, folder / LOCK, filesystem_type)
    try:
        epochs = EpochFiles(folder, master_key)
        connection = await asyncio.to_thread(_open, folder / database, epochs, world)
        return SQLiteKeyStore(connection, epochs, world, lock)
    except BaseException:
        lock.release()
        raise


def migrate_sqlite_keys(path: Path, filesystem_type: FilesystemType = mounted_filesystem) -> None:
    """Bring the tables of a key store that is there to this release. Needs no key."""
    lock = FolderLock.acquire(path.parent / LOCK, filesystem_type)
    try:
        connection = open_connection(path, journal_mode="truncate")
        try:
            KEY_STORE.ensure(connection)
        finally:
            connection.close()
    finally:
        lock.release()


def _open(path: Path, epochs: EpochFiles, world: World) -> sqlite3.Connection:
    _make_private(path)
    if not path.exists() and epochs.exist():
        raise ConfigurationError(f"{path} is gone but its epoch key is there: restore it from a backup")
    create_file(path)
    connection = open_connection(path, journal_mode="truncate")
    try:
        KEY_STORE.ensure(connection)
        with translated():
            _ensure_epoch(connection, epochs, world)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Close the key store's folder to others, unless it holds other things and so isn't its own."""
    folder = path.parent
    if not folder.stat().st_mode & 0o077:
        return
    if foreign := [
        file for file in folder.iterdir() if not file.name.startswith((path.name, LOCK, "epoch-"))
    ]:
        raise ConfigurationError(
            f"{folder} is open to other users and holds more than keys ({foreign[0].name}): "
            "give the keys a folder of their own"
        )
    folder.chmod(0o700)


def _ensure_epoch(connection: sqlite3.Connection, epochs: EpochFiles, world: World) -> None:
    number = _epoch_number(connection)
    if number == 0:
        number = 1
        # A file that is there already is from a first start that was cut off: nothing is wrapped by it yet.
        if not epochs.file(number).exists():
            epochs.write(number, world.random_bytes(KEY_BYTES))
        epochs.read(number)
        with _committed(connection) as cursor:
            cursor.execute("UPDATE epoch SET number = ?", (number,))
    epochs.read(number)
    # Of a change of epochs that was cut off: one that is not used yet, or not destroyed yet.
    epochs.destroy_others(number)


def _epoch_number(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT number FROM epoch").fetchone()[0])


@contextmanager
def _committed(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """A transaction: on disk at the end, or as if it had never been."""
    cursor = connection.execute("BEGIN IMMEDIATE")
    try:
        yield cursor
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()
