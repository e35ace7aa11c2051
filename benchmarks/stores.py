"""The two stores as the benchmarks see them: started, measured in size and commits, ended.

PostgreSQL is a temporary server on its defaults; each case gets a database of its own. Commits are
counted where the database itself counts: PostgreSQL by transaction ids, which only transactions that
write get, SQLite by the write counter in the index of its log (https://www.sqlite.org/walformat.html,
2.1, iChange) and, for the key store, which has no log, by the file change counter
(https://www.sqlite.org/fileformat2.html, 1.3.5).
"""

import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql

from benchmarks.errors import BenchmarkError
from scripts.temporary_postgres import TemporaryPostgres

NAMES = ("sqlite", "postgres")
QUIET_S = 1.5
_LONGEST_QUIET_S = 120.0
_SHM_CHANGES = 8
_HEADER_CHANGES = 24


@dataclass(frozen=True, slots=True)
class Counts:
    """What a store has counted since it was made. `None`: it doesn't count that.

    `commits`: transactions that wrote. `transactions`: also those that only read. `flushes`: fsyncs of the
    log. `log_bytes`: bytes written to the log.
    """

    commits: int
    transactions: int | None = None
    flushes: int | None = None
    log_bytes: int | None = None


class Store(Protocol):
    """An empty store for one case."""

    name: str
    url: str
    environment: dict[str, str]
    pid: int | None

    def counts(self) -> Counts:
        """What it has counted up to now."""

    def sizes(self) -> dict[str, int]:
        """Bytes on disk a table, with its indexes, after a checkpoint; the server may have to be stopped."""

    def sizes_need_stop(self) -> bool:
        """Whether the server must be stopped for `sizes`."""


class PostgresStore:
    """A database of the temporary server."""

    name = "postgres"

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid: int | None = pid
        self.environment = {"ABEYANCE_DATABASE_URL": url}
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET application_name = 'benchmarks'")

    def counts(self) -> Counts:
        """See `Store.counts`. Counters of transactions and flushes are late by up to ten seconds."""
        row = self._one(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
            " (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),"
            " pg_current_wal_insert_lsn() - '0/0'"
        )
        return Counts(int(row[0]), int(row[1]), self._flushes(), int(row[2]))

    def sizes(self) -> dict[str, int]:
        """See `Store.sizes`."""
        self._connection.execute("CHECKPOINT")
        rows = self._connection.execute(
            "SELECT n.nspname || '.' || c.relname, pg_total_relation_size(c.oid) FROM pg_class AS c"
            " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        found = {name.removeprefix("public."): int(size) for name, size in rows}
        whole = int(self._one("SELECT pg_database_size(current_database())")[0])
        return {**found, "(catalogs and the rest)": whole - sum(found.values())}

    def sizes_need_stop(self) -> bool:
        """See `Store.sizes_need_stop`."""
        return False

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def _flushes(self) -> int | None:
        if self._connection.info.server_version < 180_000:
            return int(self._one("SELECT wal_sync FROM pg_stat_wal")[0])
        return int(self._one("SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'")[0])

    def _one(self, query: str) -> Any:
        row = self._connection.execute(query.encode()).fetchone()
        if row is None:
            raise BenchmarkError("PostgreSQL returned nothing")
        return row


class SqliteStore:
    """Files in a folder."""

    name = "sqlite"
    pid: int | None = None

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.journal = folder / "journal.db"
        self.url = str(self.journal)
        self.keys = folder / "journal.keys" / "keys.db"
        self.environment = {"ABEYANCE_DATABASE_URL": f"sqlite:///{self.journal}"}

    def counts(self) -> Counts:
        """See `Store.counts`. While the server runs; the key store's commits are in it."""
        index = self.journal.with_name(self.journal.name + "-shm")
        commits: int = struct.unpack_from("=I", _head(index), _SHM_CHANGES)[0]
        keys: int = struct.unpack_from(">I", _head(self.keys), _HEADER_CHANGES)[0]
        return Counts(commits + keys)

    def sizes(self) -> dict[str, int]:
        """See `Store.sizes`."""
        found: dict[str, int] = {}
        for file in (self.journal, self.keys):
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    raise BenchmarkError(f"{file.name} is still in use; its log can't be truncated")
                tables = _tables(connection)
            prefix = "" if file == self.journal else "keys: "
            found |= {prefix + name: size for name, size in tables.items()}
            found[f"{prefix}(the rest)"] = file.stat().st_size - sum(tables.values())
        return found

    def sizes_need_stop(self) -> bool:
        """See `Store.sizes_need_stop`."""
        return True

    def close(self) -> None:
        """Nothing is open."""


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(48)


def _tables(connection: sqlite3.Connection) -> dict[str, int]:
    """Bytes a table and its indexes, if this SQLite can tell."""
    try:
        rows = connection.execute(
            "SELECT s.tbl_name, sum(d.pgsize) FROM dbstat AS d JOIN sqlite_schema AS s ON s.name = d.name"
            " WHERE d.aggregate = true GROUP BY s.tbl_name"
        ).fetchall()
    except sqlite3.OperationalError:  # built without SQLITE_ENABLE_DBSTAT_VTAB
        return {}
    return {name: int(size) for name, size in rows}


def settle(store: Store) -> None:
    """Return once nothing writes any more: sealer and followers have caught up."""
    deadline = time.monotonic() + _LONGEST_QUIET_S
    before = store.counts().commits
    while time.monotonic() < deadline:
        time.sleep(QUIET_S)
        now = store.counts().commits
        if now == before:
            return
        before = now
    raise BenchmarkError(f"the store was still written to {_LONGEST_QUIET_S:.0f} s after the last run")


MakeStore = Callable[[Path], "SqliteStore | PostgresStore"]


@contextmanager
def open_maker(name: str) -> Iterator[MakeStore]:
    """What makes an empty store for each case; PostgreSQL runs as long as this is entered."""
    if name == "sqlite":
        yield SqliteStore
        return
    with TemporaryPostgres() as server, psycopg.connect(server.url, autocommit=True) as admin:
        pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        made: list[PostgresStore] = []

        def make(folder: Path) -> PostgresStore:
            database = f"bench_{len(made) + 1}"
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
            made.append(PostgresStore(server.url.replace("/postgres?", f"/{database}?"), pid))
            return made[-1]

        yield make
