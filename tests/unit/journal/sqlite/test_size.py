"""How much of the disk a waiting run takes."""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from abeyance.journal.sqlite import SQLiteJournalStore, open_sqlite_keys
from abeyance.journal.store import Append, ContentRow, EventRow
from abeyance.world import SystemWorld
from tests.contract.rows import follow, link, start, wait

RUNS = 512
GOAL = 4_096
Bytes = Callable[[int], bytes]


def in_full(append: Append, contents: int) -> Append:
    """The append with events of 250 bytes and so many contents of 130: what deflated bodies have."""
    run = append.run_id
    events = tuple(EventRow(run, row.version, row.topic, os.urandom(250)) for row in append.events)
    stored = tuple(ContentRow(run, row.version, os.urandom(130)) for row in events[:contents])
    return replace(append, events=events, contents=stored)


def pages_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    ((size,),) = connection.execute("SELECT sum(pgsize) FROM dbstat").fetchall()
    connection.close()
    return int(size)


@pytest.mark.anyio
class TestWaitingRun:
    async def test_it_takes_less_than_four_kibibytes_with_its_indexes_and_key(
        self, store: SQLiteJournalStore, tmp_path: Path
    ) -> None:
        keys = await open_sqlite_keys(tmp_path / "keys", bytes(32), SystemWorld())
        ids = [key_id for key_id, _ in await keys.take(RUNS)]
        moment = 1_790_000_000_000_000
        first = [
            in_full(start(events=3, key_id=key_id, created=moment, updated=moment, due=moment), 3)
            for key_id in ids
        ]
        await store.append(first)
        for each in first:
            run = each.run_id
            paused = in_full(
                follow(each.control, events=3, status="suspended", due=moment + 86_400_000_000), 1
            )
            waiting = wait(run, 4, state="waiting", paused=5, due=moment + 86_400_000_000)
            await store.append([replace(paused, waits=(waiting,), links=(link(run, 4),))])
        await store.seal(6 * RUNS)
        assert await store.checkpoint()
        await keys.close()

        size = pages_of(store.path) + pages_of(tmp_path / "keys" / "keys.sqlite3")

        assert GOAL > size / RUNS
