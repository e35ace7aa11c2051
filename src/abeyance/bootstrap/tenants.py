"""The workspaces and projects of this process's deployment, and who cancels the runs of suspended ones."""

import asyncio
from dataclasses import dataclass

from abeyance.bootstrap.stores import Stores
from abeyance.engine.executor import Executor
from abeyance.engine.sweeping import Sweeper
from abeyance.engine.tenants import Tenants
from abeyance.engine.workspace_log import WorkspaceLog
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.sqlite.tenancy import SQLiteTenants
from abeyance.journal.store import JournalStore
from abeyance.journal.tenancy import TenantStore


@dataclass(frozen=True, slots=True)
class OpenedTenants:
    """The service, its sweeper, and what is set once there is something to sweep."""

    service: Tenants
    sweeper: Sweeper
    wake: asyncio.Event


def open_tenants(stores: Stores, executor: Executor) -> OpenedTenants:
    """The workspaces and projects in the deployment's journal."""
    rows, wake = tenant_rows(stores.journal), asyncio.Event()
    log = WorkspaceLog(stores.journal, stores.desk)
    service = Tenants(rows, log, stores.world, suspended=wake.set)
    return OpenedTenants(service, Sweeper(executor, service, rows), wake)


def tenant_rows(journal: JournalStore) -> TenantStore:
    """The rows in this journal."""
    if isinstance(journal, SQLiteJournalStore):
        return SQLiteTenants(journal)
    from abeyance.journal.postgres.store import PostgresJournalStore
    from abeyance.journal.postgres.tenancy import PostgresTenants

    assert isinstance(journal, PostgresJournalStore)
    return PostgresTenants(journal)
