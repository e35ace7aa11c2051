"""The check of read models finds states of tenants that their streams do not say."""

from typing import Any

import pytest

from abeyance.errors import (
    RefusedError,
)
from abeyance.journal.workspace_streams import workspace_stream
from abeyance.projections.checking_tenants import tenant_drift
from tests.support.engine import SIGNER, Deployment, EngineProcess

pytestmark = pytest.mark.anyio


async def sweep(process: EngineProcess) -> None:
    """Search until nothing is due."""
    while await process.sweeper.sweep():
        pass


async def logged(process: EngineProcess, workspace: str) -> list[tuple[str, Any]]:
    """Topics and data of a workspace's stream, each event's signature and chain checked."""
    rows, _ = await process.store.read_events(workspace_stream(workspace), after=0, limit=100, contents=False)
    found = [process.desk.codec.verify(row, {SIGNER.kid: SIGNER.public_key}) for row in rows]
    chain = [None, *(recorded.digest for recorded in found)]
    assert [recorded.prev for recorded in found] == chain[: len(found)]
    return [(recorded.topic, recorded.event.model_dump(exclude_none=True)) for recorded in found]


async def code_of(process: EngineProcess, url: str, value: bytes = b"1") -> str | None:
    """The code that an answer is refused with; `None` if it was taken."""
    try:
        await process.answer(url, value)
    except RefusedError as error:
        return error.code
    return None


async def _state(deployment: Deployment, table: str, state: str, where: str) -> None:
    from abeyance.journal.postgres.wire import statement
    from abeyance.journal.sqlite.store import SQLiteJournalStore

    store, text = deployment.store, f"UPDATE {table} SET state = '{state}' WHERE {where}"
    if isinstance(store, SQLiteJournalStore):
        await store.write(lambda cursor: cursor.execute(text).rowcount)
    else:
        await store.fetch(statement(text))  # type: ignore[attr-defined]


async def _execute(deployment: Deployment, lite: str, postgres: str, run_id: Any, value: Any) -> None:
    from abeyance.journal.postgres.wire import statement
    from abeyance.journal.sqlite.store import SQLiteJournalStore

    store = deployment.store
    if isinstance(store, SQLiteJournalStore):
        await store.write(lambda cursor: cursor.execute(lite.format(value), (run_id.bytes,)).rowcount)
    else:
        await store.fetch(statement(postgres.format(value), "uuid"), run_id)  # type: ignore[attr-defined]


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
