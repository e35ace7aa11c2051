"""The check of read models finds states of tenants that their streams do not say."""

import pytest

from abeyance.projections.checking_tenants import tenant_drift
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio


async def sweep(process: EngineProcess) -> None:
    """Search until nothing is due."""
    while await process.sweeper.sweep():
        pass


async def _state(deployment: Deployment, table: str, state: str, where: str) -> None:
    from abeyance.journal.postgres.wire import statement
    from abeyance.journal.sqlite.store import SQLiteJournalStore

    store, text = deployment.store, f"UPDATE {table} SET state = '{state}' WHERE {where}"
    if isinstance(store, SQLiteJournalStore):
        await store.write(lambda cursor: cursor.execute(text).rowcount)
    else:
        await store.fetch(statement(text))  # type: ignore[attr-defined]


class TestCheck:
    async def test_a_state_that_no_event_says_is_found(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.create_project("shop", "web", actor=None)
            await process.tenants.suspend_project("shop", "web", actor=None)
            await process.tenants.suspend_project("shop", "default", actor=None)
            await process.tenants.suspend_workspace("default", actor=None)
            async with deployment.store.snapshot() as moment:
                sound = [drift async for drift in tenant_drift(moment, process.desk.codec)]

            await _state(deployment, "projects", "active", "project = 'web'")
            await _state(deployment, "workspaces", "closed", "workspace = 'default'")
            async with deployment.store.snapshot() as moment:
                found = [drift async for drift in tenant_drift(moment, process.desk.codec)]

            assert [] == sound
            assert [
                ("workspaces", "default", "closed", "suspended"),
                ("projects", "shop/web", "active", "suspended"),
            ] == [(each.model, each.row, each.stored, each.expected) for each in found]
