"""The following read models of a process: opened beside the journal, followed while it serves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from abeyance.bootstrap.stores import Stores
from abeyance.engine.keyring import KeyRing
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.projections.audit_log import AuditLog
from abeyance.projections.follower import Follower
from abeyance.projections.lists import Lists
from abeyance.projections.read_models import ReadModel, ReadModelStore
from abeyance.projections.runs_list import RunsList
from abeyance.projections.waits_list import WaitsList


@dataclass(frozen=True, slots=True)
class Reading:
    """The lists, what keeps them up to date, and where their rows are."""

    lists: Lists
    follower: Follower
    store: ReadModelStore
    models: Mapping[str, ReadModel]


async def open_reading(stores: Stores) -> Reading:
    """The read models of this release on the journal's database."""
    store = await _open_store(stores)
    codec, vault = stores.desk.codec, stores.desk.vault
    runs, waits = RunsList(store, codec), WaitsList(store, codec)
    models: dict[str, ReadModel] = {runs.name: runs, waits.name: waits}
    follower = Follower(
        stores.journal, store, [*models.values()], holder=UUID(bytes=stores.world.random_bytes(16))
    )
    audit_log = AuditLog(stores.journal, codec=codec, vault=vault, keys=KeyRing(stores.keys))
    return Reading(Lists(runs, waits, audit_log, follower), follower, store, models)


async def _open_store(stores: Stores) -> ReadModelStore:
    if isinstance(stores.journal, SQLiteJournalStore):
        from abeyance.projections.sqlite import open_sqlite_read_models

        return await open_sqlite_read_models(stores.journal)
    from abeyance.journal.postgres.store import PostgresJournalStore
    from abeyance.projections.postgres import open_postgres_read_models

    assert isinstance(stores.journal, PostgresJournalStore)
    return await open_postgres_read_models(stores.journal)


@asynccontextmanager
async def following(stores: Stores) -> AsyncIterator[Reading]:
    """The read models, kept up to date until this is left."""
    reading = await open_reading(stores)
    task = asyncio.create_task(reading.follower.run())
    try:
        yield reading
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
