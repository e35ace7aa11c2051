"""What a case stands on: an empty store, a server on it, a driver with its carrier; all gone after it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.driver import Driver, open_driver
from benchmarks.errors import BenchmarkError
from benchmarks.server import Server
from benchmarks.stores import MakeStore, PostgresStore, SqliteStore


@dataclass(slots=True)
class Setting:
    """One case's own things."""

    folder: Path
    store: PostgresStore | SqliteStore
    floor: PostgresStore | SqliteStore
    server: Server
    driver: Driver

    def restart(self) -> None:
        """Stop the server in order and start it again: what it holds in memory is gone."""
        self.driver.disconnect()
        self.server.stop()
        self.server.start()


@contextmanager
def open_setting(make: MakeStore, connections: int) -> Iterator[Setting]:
    """A server on an empty store; `connections` is how many answers the carrier posts at once."""
    with tempfile.TemporaryDirectory(prefix="abeyance-bench-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        store, floor = make(folder / "store"), make(folder / "floor")
        server = Server(folder, store.environment)
        try:
            server.start()
            with open_driver(folder, server, connections) as driver:
                yield Setting(folder, store, floor, server, driver)
            server.stop()
        except (ConnectionError, BenchmarkError) as error:
            raise BenchmarkError(f"{error}\nThe server said last:\n{server.said()}") from error
        finally:
            server.kill()
            store.close()
            floor.close()
