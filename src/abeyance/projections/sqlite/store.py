"""`ReadModelStore` on SQLite: writes are requests to the journal's writer thread, and share its commits."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from abeyance.journal.sqlite.snapshot import select
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.projections.read_models import Place, RunsChanges
from abeyance.projections.sqlite import schema
from abeyance.projections.sqlite.waits import apply_waits
from abeyance.projections.waits_list import WaitChange

TABLES = {
    "runs": (("runs_list", "generation, run_id"), ("runs_list_labels", "generation, name, value, run_id")),
    "waits": (("waits_list", "generation, run_id, key"),),
}
CLEARED_A_TIME = 2_000

_SELECT_PLACE = "SELECT generation, position FROM read_models WHERE name = ? AND live"
_INSERT_PLACE = "INSERT INTO read_models (name, generation, position, live) VALUES (?, ?, 0, ?)"
_NEWEST = "SELECT coalesce(max(generation), 0) FROM read_models WHERE name = ?"
_MOVE = """
UPDATE read_models SET position = ? WHERE name = ? AND generation = ? AND position = ? AND live = ?
"""
_MAY_SWAP = """
SELECT 1 FROM read_models AS new JOIN read_models AS old ON old.name = new.name AND old.live
WHERE new.name = ? AND new.generation = ? AND new.position >= old.position
"""
_INSERT_RUN = """
INSERT INTO runs_list (generation, run_id, created, version, status, definition) VALUES (?, ?, ?, ?, ?, ?)
"""
_INSERT_LABEL = "INSERT INTO runs_list_labels (generation, name, value, run_id) VALUES (?, ?, ?, ?)"
_UPDATE_RUN = (
    "UPDATE runs_list SET version = ?, status = coalesce(?, status) WHERE generation = ? AND run_id = ?"
)


class SQLiteReadModels:
    """See `abeyance.projections.read_models.ReadModelStore`. Made by `open_sqlite_read_models`."""

    def __init__(self, store: SQLiteJournalStore) -> None:
        self._store = store

    async def place(self, model: str) -> Place:
        """See `ReadModelStore.place`."""
        row = self._store.read(lambda reader: reader.execute(_SELECT_PLACE, (model,)).fetchone())
        if row is not None:
            return Place(*row)
        return await self._store.write(partial(_first_place, model=model))

    async def begin(self, model: str) -> Place:
        """See `ReadModelStore.begin`."""
        return await self._store.write(partial(_begin, model=model))

    async def swap(self, model: str, generation: int) -> bool:
        """See `ReadModelStore.swap`."""
        return await self._store.write(partial(_swap, model=model, generation=generation))

    async def clear(self, model: str, generation: int) -> None:
        """See `ReadModelStore.clear`."""
        await self._store.write(partial(_forget, model=model, generation=generation))
        for table, key in TABLES[model]:
            work = partial(_clear, table=table, key=key, generation=generation)
            while await self._store.write(work):
                pass

    async def apply_runs(self, place: Place, position: int, changes: RunsChanges) -> bool:
        """See `ReadModelStore.apply_runs`."""
        return await self._store.write(partial(_apply_runs, place=place, position=position, changes=changes))

    async def apply_waits(self, place: Place, position: int, changes: Sequence[WaitChange]) -> bool:
        """See `ReadModelStore.apply_waits`."""
        return await self._store.write(partial(apply_waits, place=place, position=position, changes=changes))

    async def select(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """See `ReadModelStore.select`."""
        return self._store.read(lambda reader: select(reader, text, values))

    async def lead(self, holder: UUID, seconds: float) -> bool:
        """See `ReadModelStore.lead`: there is one process."""
        return True

    async def resign(self, holder: UUID) -> None:
        """See `ReadModelStore.resign`."""


async def open_sqlite_read_models(store: SQLiteJournalStore) -> SQLiteReadModels:
    """The read models in the journal's file; their tables are made or migrated."""
    await store.write(schema.ensure)
    return SQLiteReadModels(store)


def _first_place(cursor: sqlite3.Cursor, model: str) -> Place:
    row = cursor.execute(_SELECT_PLACE, (model,)).fetchone()
    return Place(*row) if row is not None else _new_place(cursor, model, live=True)


def _begin(cursor: sqlite3.Cursor, model: str) -> Place:
    _first_place(cursor, model)
    return _new_place(cursor, model, live=False)


def _new_place(cursor: sqlite3.Cursor, model: str, live: bool) -> Place:
    generation = int(cursor.execute(_NEWEST, (model,)).fetchone()[0]) + 1
    cursor.execute(_INSERT_PLACE, (model, generation, live))
    return Place(generation, 0, live)


def _swap(cursor: sqlite3.Cursor, model: str, generation: int) -> bool:
    if cursor.execute(_MAY_SWAP, (model, generation)).fetchone() is None:
        return False
    cursor.execute("UPDATE read_models SET live = generation = ? WHERE name = ?", (generation, model))
    return True


def _forget(cursor: sqlite3.Cursor, model: str, generation: int) -> None:
    cursor.execute("DELETE FROM read_models WHERE name = ? AND generation < ?", (model, generation))


def _clear(cursor: sqlite3.Cursor, table: str, key: str, generation: int) -> bool:
    old = f"SELECT {key} FROM {table} WHERE generation < ? LIMIT {CLEARED_A_TIME}"
    return cursor.execute(f"DELETE FROM {table} WHERE ({key}) IN ({old})", (generation,)).rowcount > 0


def _apply_runs(cursor: sqlite3.Cursor, place: Place, position: int, changes: RunsChanges) -> bool:
    generation = place.generation
    moved = cursor.execute(_MOVE, (position, "runs", generation, place.position, place.live)).rowcount
    if moved != 1:
        return False
    rows = [(generation, run.run_id.bytes, *run[1:5]) for run in changes.new]
    cursor.executemany(_INSERT_RUN, rows)
    labels = [
        (generation, name, value, run.run_id.bytes)
        for run in changes.new
        for name, value in run.labels.items()
    ]
    cursor.executemany(_INSERT_LABEL, labels)
    changed = [(run.version, run.status, generation, run.run_id.bytes) for run in changes.changed]
    cursor.executemany(_UPDATE_RUN, changed)
    return True
