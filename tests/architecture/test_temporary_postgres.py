"""The PostgreSQL that tests and benchmarks bring along."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from scripts.temporary_postgres import TemporaryPostgres

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import time
from scripts.temporary_postgres import TemporaryPostgres
server = TemporaryPostgres()
server.start()
print(server.folder, flush=True)
time.sleep(600)
"""


def wait_until_gone(folder: Path, *, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.slow
class TestTemporaryPostgres:
    def test_it_is_durable_by_default(self) -> None:
        with TemporaryPostgres() as server, psycopg.connect(server.url) as connection:
            kept = [connection.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]

        assert [("on",), ("on",)] == kept
        assert not server.folder.exists()

    def test_what_was_committed_survives_a_crash(self) -> None:
        with TemporaryPostgres() as server:
            with psycopg.connect(server.url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
            server.crash()
            server.start()
            with psycopg.connect(server.url) as connection:
                row = connection.execute("SELECT number FROM kept").fetchone()

        assert (7,) == row

    def test_it_ends_with_a_process_that_is_killed(self) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as owner:
            assert owner.stdout is not None
            folder = Path(owner.stdout.readline().strip())
            assert (folder / "data" / "postmaster.pid").exists()
            owner.send_signal(signal.SIGKILL)

        wait_until_gone(folder)
        assert not folder.exists()

    def test_a_wrong_setting_is_told_at_once(self) -> None:
        server = TemporaryPostgres({"max_connections": "none"})
        try:
            with pytest.raises(RuntimeError, match="max_connections"):
                server.start()
        finally:
            server.close()
