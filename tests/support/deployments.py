"""Fixtures of a deployment on each store. A folder's conftest imports those that its tests ask for."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from abeyance.journal.store import JournalStore, KeyStore
from tests.conftest import PostgresServer
from tests.support.engine import Deployment, TestWorld

MASTER_KEY = b"\x09" * 32
HOT_RUNS = {"warm": None, "cold": 0}


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresServer) -> Iterator[str]:
    """A database that has this release's tables, to be copied."""
    from abeyance.journal.postgres.migrations import migrate, migrate_keys
    from abeyance.projections.postgres import migrate_read_models

    url = postgres_server.create_database()
    migrate(url)
    migrate_keys(url)
    migrate_read_models(url)
    yield urlsplit(url).path.removeprefix("/")
    postgres_server.drop_database(url)


@pytest.fixture
def migrated_url(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """A fresh database that has this release's tables."""
    url = postgres_server.create_database(template=migrated_template)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=list(HOT_RUNS))
def hot_runs(request: pytest.FixtureRequest) -> int | None:
    """How many runs a process keeps in memory while they wait: by its limits, or none."""
    return HOT_RUNS[str(request.param)]


@pytest.fixture
async def deployment(
    store_kind: str, hot_runs: int | None, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Deployment]:
    """An empty store of each kind, with its key store."""
    world = TestWorld()
    journal: JournalStore
    keys: KeyStore
    if store_kind == "sqlite":
        from abeyance.journal.sqlite.keystore import open_sqlite_keys
        from abeyance.journal.sqlite.store import open_sqlite
        from abeyance.projections.sqlite import open_sqlite_read_models

        journal = await open_sqlite(tmp_path / "journal", world)
        await open_sqlite_read_models(journal)
        keys = await open_sqlite_keys(tmp_path / "keys", MASTER_KEY, world)
    else:
        from abeyance.journal.postgres.keystore import open_postgres_keys
        from abeyance.journal.postgres.store import open_postgres

        url = request.getfixturevalue("migrated_url")
        journal = await open_postgres(url, world)
        keys = await open_postgres_keys(url, MASTER_KEY, world)
    try:
        yield Deployment(journal, keys, world, hot_runs)
    finally:
        await keys.close()
        await journal.close()
