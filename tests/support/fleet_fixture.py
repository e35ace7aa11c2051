"""A deployment a module and store: a test module imports `servers`."""

import socket
from collections.abc import Iterator

import pytest

from tests.support.fleet import Fleet, fleet


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Servers that serve: one process on SQLite, four on PostgreSQL, without a limit of links."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    url = None if server is None else server.create_database()
    with fleet(tmp_path_factory.mktemp("fleet") / "deployment", port, url) as made:
        made.serve()
        yield made
    if server is not None:
        server.drop_database(url)
