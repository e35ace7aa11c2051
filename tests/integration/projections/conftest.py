"""A journal with its read models, open, on a fresh database of each store."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from abeyance.crypto.sealing import RunKey
from abeyance.errors import ContentErasedError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.postgres import PostgresJournalStore, migrate, open_postgres
from abeyance.journal.sqlite import SQLiteJournalStore, open_sqlite
from abeyance.journal.store import JournalStore
from abeyance.journal.vault import Vault
from abeyance.projections.audit_log import AuditLog
from abeyance.projections.follower import Follower
from abeyance.projections.postgres import migrate_read_models, open_postgres_read_models
from abeyance.projections.read_models import ReadModelStore
from abeyance.projections.runs_list import RunsFilter, RunsList
from abeyance.projections.sqlite import open_sqlite_read_models
from abeyance.projections.waits_list import WaitsFilter, WaitsList
from abeyance.world import SystemWorld
from tests.unit.projections.histories import KEY, ORIGIN, Author, begin


class Keys:
    """The one key that all histories are written under, until it is destroyed."""

    erased = False

    async def get(self, key_id: int) -> RunKey:
        if self.erased:
            raise ContentErasedError(1)
        return KEY


@dataclass
class Deployment:
    """What one process has open."""

    journal: JournalStore
    read_models: ReadModelStore
    follower: Follower
    runs: RunsList
    waits: WaitsList
    audit_log: AuditLog
    codec: EventCodec
    keys: Keys

    async def write(self, author: Author) -> Author:
        """Append what the author wrote and isn't stored yet."""
        appends, author.appends = author.appends, []
        for append in appends:
            assert await self.journal.append([append]) == [True]
        return author

    async def listed(self, *, limit: int = 100, **wanted: object) -> list[int]:
        """The ids that are listed now, as numbers."""
        await self.follower.catch_up()
        page = await self.runs.find(RunsFilter(**wanted), limit=limit)  # type: ignore[arg-type]
        return [run_id.int for run_id in page.data]

    async def waiting(self, *, limit: int = 100, **wanted: object) -> list[tuple[int, str]]:
        """The waits that are listed now: the run's id as a number, and the wait's id."""
        await self.follower.catch_up()
        page = await self.waits.find(WaitsFilter(**wanted), limit=limit)  # type: ignore[arg-type]
        return [(wait.run_id.int, wait.id) for wait in page.data]

    async def damage(self, text: str, values: tuple[object, ...] = ()) -> None:
        """Change rows behind the journal's back. `$1` stands for the first value."""
        if isinstance(self.journal, SQLiteJournalStore):
            plain = [value.bytes if isinstance(value, UUID) else value for value in values]
            await self.journal.write(lambda cursor: cursor.execute(text.replace("$", "?"), plain).rowcount)
        else:
            await self.read_models.select(text, values)

    async def damage_event(self, stream: UUID, version: int, **columns: object) -> None:
        """Change columns of an event's row."""
        stored_id = stream.hex if isinstance(self.journal, SQLiteJournalStore) else stream
        for column, value in columns.items():
            which = "originator_id = $2 AND originator_version = $3"
            await self.damage(
                f"UPDATE journal_events SET {column} = $1 WHERE {which}", (value, stored_id, version)
            )

    async def damage_contents(self, blob: bytes) -> None:
        """Put these bytes in place of every sealed content."""
        on_sqlite = isinstance(self.journal, SQLiteJournalStore)
        held = "contents SET blob" if on_sqlite else "journal_events SET content"
        await self.damage(f"UPDATE {held} = $1", (blob,))


Open = Callable[[], Awaitable[Deployment]]


@pytest.fixture
async def open_deployment(
    anyio_backend: str, store_kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Open]:
    """Opens processes on the same database; on SQLite they share the one journal that there may be."""
    url = str(request.getfixturevalue("postgres_url")) if store_kind == "postgres" else ""
    if url:
        migrate(url)
        migrate_read_models(url)
    journals: list[SQLiteJournalStore | PostgresJournalStore] = []
    async with AsyncExitStack() as stack:

        async def open_one() -> Deployment:
            if url or not journals:
                world = SystemWorld()
                opened = await open_postgres(url, world) if url else await open_sqlite(tmp_path, world)
                stack.push_async_callback(opened.close)
                journals.append(opened)
            return await deployment_on(journals[-1], len(journals))

        yield open_one


async def deployment_on(journal: SQLiteJournalStore | PostgresJournalStore, number: int) -> Deployment:
    if isinstance(journal, SQLiteJournalStore):
        read_models: ReadModelStore = await open_sqlite_read_models(journal)
    else:
        read_models = await open_postgres_read_models(journal)
    codec, keys = EventCodec(ORIGIN), Keys()
    runs, waits = RunsList(read_models, codec), WaitsList(read_models, codec)
    follower = Follower(journal, read_models, [runs, waits], holder=UUID(int=number), batch=7)
    audit_log = AuditLog(journal, codec=codec, vault=Vault(ORIGIN, SystemWorld()), keys=keys)
    return Deployment(journal, read_models, follower, runs, waits, audit_log, codec, keys)


@pytest.fixture
async def deployment(open_deployment: Open) -> Deployment:
    """One process on an empty database."""
    return await open_deployment()


def run(number: int, labels: dict[str, str] | None = None) -> Author:
    """A run whose id is this number, with its first event written."""
    return begin(UUID(int=number), labels)
