"""The log in a store, tampered with by direct SQL: each change is found, on both databases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from abeyance.audit.journal import StoreReport, verify_store
from abeyance.journal.postgres import migrate, migrate_keys, open_postgres, open_postgres_keys
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement
from abeyance.journal.sqlite import open_sqlite, open_sqlite_keys
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.world import SystemWorld
from tests.support.logs import OpenLog, answered_run, open_log
from tests.unit.projections.histories import ROOT

pytestmark = pytest.mark.anyio

CHANGES = {
    "state edited": "UPDATE journal_events SET state = (SELECT o.state FROM journal_events AS o WHERE "
    "o.originator_id = '{other}' AND o.originator_version = 3) WHERE originator_id = '{run}' AND "
    "originator_version = 3",
    "topic edited": "UPDATE journal_events SET topic = 'call-failed' WHERE originator_id = '{run}' AND "
    "originator_version = 3",
    "event deleted": "DELETE FROM journal_events WHERE originator_id = '{run}' AND originator_version = 3",
    "tail deleted": "DELETE FROM journal_events WHERE originator_id = '{run}' AND originator_version = 6",
    "run deleted": "DELETE FROM journal_events WHERE originator_id = '{run}'",
    "reordered": "UPDATE journal_events SET originator_version = 30 - originator_version WHERE "
    "originator_id = '{run}' AND originator_version > 1",
    "moved to another run": "UPDATE journal_events SET originator_id = '{new}' WHERE originator_id = '{run}'",
    "tile edited": "UPDATE log_tiles SET hashes = (SELECT hashes FROM log_tiles WHERE level = 1 AND "
    "tile = 0) WHERE level = 0 AND tile = 0",
    "tile deleted": "DELETE FROM log_tiles WHERE level = 0 AND tile = 1",
    "checkpoint edited": "UPDATE log_head SET note = replace(note, 'localhost', 'elsewhere')",
    "checkpoint's size edited": "UPDATE log_head SET size = size - 6",
}


@pytest.fixture
async def opened(
    anyio_backend: str, store_kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[OpenLog]:
    world = SystemWorld()
    if store_kind == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
        migrate(url)
        migrate_keys(url)
        opened = open_log(await open_postgres(url, world), await open_postgres_keys(url, bytes(32), world))
    else:
        journal = await open_sqlite(tmp_path / "journal", world)
        opened = open_log(journal, await open_sqlite_keys(tmp_path / "keys", bytes(32), world))
    await opened.open()
    await opened.write(*(answered_run(number) for number in range(1, 51)))
    yield opened
    await opened.journal.close()
    await opened.keys.close()


async def verified(opened: OpenLog) -> StoreReport:
    async with opened.journal.snapshot() as snapshot:
        return await verify_store(snapshot, root_public_key=ROOT.public_key)


async def execute(opened: OpenLog, text: str) -> None:
    from uuid import UUID

    journal = opened.journal
    if isinstance(journal, SQLiteJournalStore):
        ids = {"run": UUID(int=7).hex, "other": UUID(int=8).hex, "new": UUID(int=99).hex}
        assert await journal.write(lambda cursor: cursor.execute(text.format(**ids)).rowcount) > 0
    else:
        assert isinstance(journal, PostgresJournalStore)
        ids = {"run": str(UUID(int=7)), "other": str(UUID(int=8)), "new": str(UUID(int=99))}
        await journal.fetch(statement(text.format(**ids)))


class TestLiveStore:
    async def test_an_untouched_store_is_verified(self, opened: OpenLog) -> None:
        report = await verified(opened)

        assert ("verified", 303, 303, ()) == (report.verdict, report.sealed, report.signed, report.findings)

    @pytest.mark.parametrize("change", CHANGES)
    async def test_a_change_behind_the_servers_back_is_tampering(self, opened: OpenLog, change: str) -> None:
        await execute(opened, CHANGES[change])

        assert "tampered" == (await verified(opened)).verdict

    async def test_an_edited_event_is_named(self, opened: OpenLog) -> None:
        await execute(opened, CHANGES["state edited"])

        named = {(finding.stream.int, finding.version) for finding in (await verified(opened)).findings}

        assert (7, 3) in named
