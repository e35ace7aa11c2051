"""A migrated database, the store over it, and servers and connections that tests may break."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psycopg
import pytest

from abeyance.journal.postgres import PostgresJournalStore, SessionSettings, migrate, open_postgres
from scripts.temporary_postgres import TemporaryPostgres
from tests.integration.postgres.samples import WORLD

OpenStore = Callable[..., Awaitable[PostgresJournalStore]]


@pytest.fixture
def journal_url(postgres_url: str) -> str:
    """A database with the journal's tables, without anything in them."""
    migrate(postgres_url)
    return postgres_url


@pytest.fixture
async def open_store(anyio_backend: str) -> AsyncIterator[OpenStore]:
    """Opens stores at a URL; each is closed after the test."""
    opened: list[PostgresJournalStore] = []

    async def open_one(url: str, **settings: object) -> PostgresJournalStore:
        made = SessionSettings(**settings)  # type: ignore[arg-type]
        opened.append(await open_postgres(url, WORLD, made))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: OpenStore, journal_url: str) -> PostgresJournalStore:
    return await open_store(journal_url)


@pytest.fixture
def database(journal_url: str) -> Iterator[psycopg.Connection]:
    """A connection of the test's own."""
    with psycopg.connect(journal_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def own_server() -> Iterator[TemporaryPostgres]:
    """A server that nobody else uses: to stop, to crash, to configure."""
    with TemporaryPostgres() as server:
        migrate(server.url)
        yield server
