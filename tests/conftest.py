"""What every test may ask for. Nothing here starts before a test asks.

* ``store_kind``: the hook for tests that hold on both stores, run once with each.
* ``postgres_url``: a fresh, empty PostgreSQL database; ``make_postgres_database`` makes more.
* ``postgres_server``: the server behind them, one a test process, or ``ABEYANCE_TEST_DATABASE_URL``.
* ``free_port``: a TCP port of loopback that nobody listens on.
* ``seed``: the number that a random test prints and can be given again by ``ABEYANCE_TEST_SEED``.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from scripts.temporary_postgres import TemporaryPostgres

settings.register_profile("quick", max_examples=20, deadline=None)
settings.register_profile("default", max_examples=100, deadline=None)
settings.register_profile(
    "torture",
    max_examples=2_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


def pytest_configure(config: pytest.Config) -> None:
    """Take the developer's own settings out of the environment, and choose how long property tests run."""
    for name in [name for name in os.environ if name.startswith("ABEYANCE_")]:
        if not name.startswith("ABEYANCE_TEST_"):
            del os.environ[name]
    if not config.getoption("--hypothesis-profile", default=None):
        settings.load_profile(os.environ.get("ABEYANCE_TEST_PROFILE", "default"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio only: the package uses nothing else."""
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres"])
def store_kind(request: pytest.FixtureRequest) -> str:
    """Which store a test runs on; a fixture that builds one asks for ``postgres_url`` only if it needs it."""
    return str(request.param)


@dataclass(frozen=True)
class PostgresServer:
    """A server on which databases may be made: the temporary one, or the one that the developer named."""

    url: str
    _made: set[str] = field(default_factory=set)

    def create_database(self, *, template: str = "template1") -> str:
        """Create an empty database and return its URL. A template is copied file by file: 25 ms."""
        name = f"abeyance_test_{os.getpid()}_{uuid.uuid4().hex[:12]}"
        strategy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        with psycopg.connect(self.url, autocommit=True) as connection:
            if connection.info.server_version < 150_000:  # the strategy came with 15
                strategy = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(strategy.format(sql.Identifier(name), sql.Identifier(template)))
        self._made.add(name)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def drop_database(self, url: str) -> None:
        """Drop a database that ``create_database`` made, whoever is still connected."""
        name = urlsplit(url).path.removeprefix("/")
        if name not in self._made:
            raise ValueError(f"not a database of this test process: {name}")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )
        self._made.discard(name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for this test process, on its defaults (fsync on)."""
    given = os.environ.get("ABEYANCE_TEST_DATABASE_URL")
    if given:
        yield PostgresServer(given)
        return
    with TemporaryPostgres() as server:
        yield PostgresServer(server.url)


@pytest.fixture
def make_postgres_database(postgres_server: PostgresServer) -> Iterator[Callable[[], str]]:
    """Make as many fresh databases as a test needs; all are dropped after it."""
    urls: list[str] = []

    def make() -> str:
        urls.append(postgres_server.create_database())
        return urls[-1]

    yield make
    for url in urls:
        postgres_server.drop_database(url)


@pytest.fixture
def postgres_url(make_postgres_database: Callable[[], str]) -> str:
    """A fresh, empty PostgreSQL database for this test."""
    return make_postgres_database()


@pytest.fixture
def free_port() -> int:
    """A TCP port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """The seed of a random test: printed with a failure, given again by ``ABEYANCE_TEST_SEED``."""
    value = int(os.environ.get("ABEYANCE_TEST_SEED") or int.from_bytes(os.urandom(4)))
    record_property("seed", value)
    print(f"repeat with ABEYANCE_TEST_SEED={value}")
    return value
