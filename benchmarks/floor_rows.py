"""The rows of the floor, and the four commits that write them.

The rows have the sizes of what abeyance writes for a run of B1: ten events, eight contents, a control row,
a wait, a link. A commit is one statement on PostgreSQL, one immediate transaction on SQLite, both with
the durability that abeyance has there.
"""

import os
import sqlite3
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg

from benchmarks.errors import BenchmarkError

EVENT_BYTES = 250
CONTENT_BYTES = 83
# For each commit the versions of its events, and how many of them have a content.
COMMITS = (((1, 2), 2), ((3, 4, 5, 6), 2), ((7, 8), 2), ((9, 10), 2))
WAIT = 4

_TABLES = """
CREATE TABLE floor_events (
    run_id {id}, version bigint, topic text, state {bytes}, PRIMARY KEY (run_id, version)
);
CREATE TABLE floor_contents (
    run_id {id}, version bigint, blob {bytes}, PRIMARY KEY (run_id, version)
);
CREATE TABLE floor_control (run_id {id} PRIMARY KEY, version bigint, head {bytes}, status text);
CREATE TABLE floor_waits (run_id {id}, opened bigint, state text, PRIMARY KEY (run_id, opened));
CREATE TABLE floor_links (digest {bytes} PRIMARY KEY, run_id {id}, opened bigint);
"""

Commit = Callable[[UUID, int], None]


def make_tables(store: str, url: str) -> None:
    """Make the floor's tables where they aren't."""
    if store == "sqlite":
        connection = _sqlite(url)
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'floor_events'").fetchone():
            connection.executescript(_TABLES.format(id="blob", bytes="blob"))
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as made:
        if made.execute("SELECT to_regclass('floor_events')").fetchone() == (None,):
            made.execute(_TABLES.format(id="uuid", bytes="bytea").encode())


def open_commits(store: str, url: str) -> Commit:
    """What makes a run's commit of a number from 0 to 3, over a connection of its own."""
    return _sqlite_commits(url) if store == "sqlite" else _postgres_commits(url)


def _rows(number: int) -> tuple[list[int], list[bytes], list[int], list[bytes]]:
    versions, contents = COMMITS[number]
    states = [os.urandom(EVENT_BYTES) for _ in versions]
    return list(versions), states, list(versions[:contents]), [os.urandom(CONTENT_BYTES)] * contents


def _postgres_commits(url: str) -> Commit:
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=1, cursor_factory=psycopg.RawCursor)
    statements = [_statement(number) for number in range(len(COMMITS))]

    def commit(run_id: UUID, number: int) -> None:
        versions, states, owners, blobs = _rows(number)
        values: list[Any] = [run_id, versions[-1], os.urandom(32), versions, states, owners, blobs]
        cursor = connection.execute(statements[number], values, binary=True)
        if cursor.fetchone() is None:
            raise BenchmarkError("a commit of the floor wrote nothing")

    return commit


def _statement(number: int) -> bytes:
    control = "INSERT INTO floor_control VALUES ($1::uuid, $2::bigint, $3::bytea, 'running') RETURNING run_id"
    if number > 0:
        control = (
            f"UPDATE floor_control SET version = $2::bigint, head = $3::bytea, status = 'after {number}'"
            f" WHERE run_id = $1::uuid AND version = {COMMITS[number - 1][0][-1]} RETURNING run_id"
        )
    parts = [
        f"WITH control AS ({control})",
        "events AS (INSERT INTO floor_events SELECT run_id, e.version, 'some-topic', e.state"
        " FROM control, unnest($4::bigint[], $5::bytea[]) AS e (version, state))",
        "contents AS (INSERT INTO floor_contents SELECT run_id, c.version, c.blob"
        " FROM control, unnest($6::bigint[], $7::bytea[]) AS c (version, blob))",
    ]
    if number == 1:
        parts.append(f"waits AS (INSERT INTO floor_waits SELECT run_id, {WAIT}, 'waiting' FROM control)")
        parts.append(f"links AS (INSERT INTO floor_links SELECT $3::bytea, run_id, {WAIT} FROM control)")
    if number == 2:
        parts.append("waits AS (UPDATE floor_waits SET state = 'completed' WHERE run_id = $1::uuid)")
    return (", ".join(parts) + " SELECT run_id FROM control").encode()


def _sqlite(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _sqlite_commits(path: str) -> Commit:
    connection = _sqlite(path)

    def commit(run_id: UUID, number: int) -> None:
        versions, states, owners, blobs = _rows(number)
        key, run = os.urandom(32), run_id.bytes
        connection.execute("BEGIN IMMEDIATE")
        if number == 0:
            connection.execute(
                "INSERT INTO floor_control VALUES (?, ?, ?, 'running')", (run, versions[-1], key)
            )
        else:
            connection.execute(
                "UPDATE floor_control SET version = ?, head = ?, status = ? WHERE run_id = ? AND version = ?",
                (versions[-1], key, f"after {number}", run, COMMITS[number - 1][0][-1]),
            )
        connection.executemany(
            "INSERT INTO floor_events VALUES (?, ?, 'some-topic', ?)",
            [(run, version, state) for version, state in zip(versions, states, strict=True)],
        )
        connection.executemany(
            "INSERT INTO floor_contents VALUES (?, ?, ?)",
            [(run, version, blob) for version, blob in zip(owners, blobs, strict=True)],
        )
        if number == 1:
            connection.execute("INSERT INTO floor_waits VALUES (?, ?, 'waiting')", (run, WAIT))
            connection.execute("INSERT INTO floor_links VALUES (?, ?, ?)", (key, run, WAIT))
        if number == 2:
            connection.execute("UPDATE floor_waits SET state = 'completed' WHERE run_id = ?", (run,))
        connection.execute("COMMIT")

    return commit
