"""Behind PgBouncer in transaction mode: every statement may meet another server process."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.integration.postgres.conftest import OpenStore
from tests.integration.postgres.samples import new_append, new_run

CONFIGURATION = """
[databases]
{database} = host={host} dbname={database} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 2
unix_socket_dir =
logfile = {folder}/log
"""


@pytest.fixture
def pooler_url(journal_url: str, free_port: int, tmp_path: Path) -> Iterator[str]:
    """The journal's database through a pooler with two server connections."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    info = conninfo_to_dict(journal_url)
    account = ["-u", "nobody"] if os.geteuid() == 0 else []  # PgBouncer refuses root
    if account:
        for folder in [tmp_path, *list(tmp_path.parents)[:2]]:
            folder.chmod(0o755)
        shutil.chown(tmp_path, "nobody")
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(
        CONFIGURATION.format(database=info["dbname"], host=info["host"], port=free_port, folder=tmp_path)
    )
    command = [program, "-q", *account, str(settings)]
    url = f"postgresql://postgres@127.0.0.1:{free_port}{urlsplit(journal_url).path}?sslmode=disable"
    with subprocess.Popen(command) as process:
        try:
            await_ready(url)
            yield url
        finally:
            process.terminate()


def await_ready(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@pytest.mark.system
@pytest.mark.anyio
class TestPooler:
    @pytest.mark.case("K01", "K09")
    async def test_twenty_clients_share_two_server_connections(
        self, open_store: OpenStore, pooler_url: str
    ) -> None:
        stores = [await open_store(pooler_url, pooler=True) for _ in range(4)]
        runs = [new_run() for _ in range(20)]

        async def write(number: int) -> None:
            store, run = stores[number % 4], runs[number]
            for version in range(12):
                assert [True] == await store.append([new_append(run, after=version)])
                found = await store.read_run(run, after=version)
                assert found is not None
                assert [version + 1] == [event.version for event in found.events]

        await asyncio.gather(*(write(number) for number in range(20)))

        async with asyncio.timeout(20):
            while await stores[0].seal(500) < 240:
                await asyncio.sleep(0.01)

    @pytest.mark.case("K02")
    async def test_hints_go_around_the_pooler(
        self, open_store: OpenStore, pooler_url: str, journal_url: str
    ) -> None:
        store = await open_store(pooler_url, pooler=True, listen_url=journal_url)
        stream = store.hints()
        await stream.listening.wait()
        run = new_run()

        await store.hint([run])

        async with asyncio.timeout(10):
            assert run == await anext(stream)
