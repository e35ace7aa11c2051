"""A deployment on each store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.engine import Deployment, TestWorld

MASTER_KEY = b"\x09" * 32


@pytest.fixture
async def deployment(
    store_kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """An empty store of each kind, with its key store."""
    world = TestWorld()
    if store_kind == "sqlite":
        from abeyance.journal.sqlite.keystore import open_sqlite_keys
        from abeyance.journal.sqlite.store import open_sqlite

        journal = await open_sqlite(tmp_path / "journal", world)
        keys = await open_sqlite_keys(tmp_path / "keys", MASTER_KEY, world)
    else:
        from abeyance.journal.postgres.keystore import open_postgres_keys
        from abeyance.journal.postgres.migrations import migrate, migrate_keys
        from abeyance.journal.postgres.store import open_postgres

        url = request.getfixturevalue("postgres_url")
        migrate(url)
        migrate_keys(url)
        journal = await open_postgres(url, world)
        keys = await open_postgres_keys(url, MASTER_KEY, world)
    try:
        yield Deployment(journal, keys, world)
    finally:
        await keys.close()
        await journal.close()
