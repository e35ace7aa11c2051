"""One suite over every store: a journal and a key store, open, on a fresh database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from abeyance.journal.postgres import migrate, migrate_keys, open_postgres, open_postgres_keys
from abeyance.journal.sqlite import open_sqlite, open_sqlite_keys
from abeyance.journal.store import JournalStore, KeyStore
from abeyance.world import SystemWorld

MASTER_KEY = bytes(range(32))


@pytest.fixture
def postgres(store_kind: str, request: pytest.FixtureRequest) -> str:
    """The database's URL; empty on SQLite, which starts no server."""
    return str(request.getfixturevalue("postgres_url")) if store_kind == "postgres" else ""


@pytest.fixture
async def store(anyio_backend: str, postgres: str, tmp_path: Path) -> AsyncIterator[JournalStore]:
    """An empty journal."""
    world = SystemWorld()
    if postgres:
        migrate(postgres)
    opened: JournalStore = (
        await open_postgres(postgres, world) if postgres else await open_sqlite(tmp_path / "journal", world)
    )
    yield opened
    await opened.close()


@pytest.fixture
async def other_store(store: JournalStore, postgres: str) -> AsyncIterator[JournalStore]:
    """The same journal as another process sees it; on SQLite, which has one process, `store` itself."""
    if not postgres:
        yield store
        return
    opened = await open_postgres(postgres, SystemWorld())
    yield opened
    await opened.close()


class OpenKeys:
    """Opens one and the same key store, under the right master key or another one."""

    def __init__(self, postgres: str, folder: Path) -> None:
        self._postgres = postgres
        self.folder = folder
        if postgres:
            migrate_keys(postgres)

    async def __call__(self, master_key: bytes = MASTER_KEY) -> KeyStore:
        """The key store, open."""
        if self._postgres:
            return await open_postgres_keys(self._postgres, master_key, SystemWorld())
        return await open_sqlite_keys(self.folder, master_key, SystemWorld())


@pytest.fixture
def open_keys(postgres: str, tmp_path: Path) -> OpenKeys:
    """Opens the key store, as often as a test wants to restart the process."""
    return OpenKeys(postgres, tmp_path / "keys")


@pytest.fixture
async def keys(anyio_backend: str, open_keys: OpenKeys) -> AsyncIterator[KeyStore]:
    """An empty key store."""
    opened = await open_keys()
    yield opened
    await opened.close()
