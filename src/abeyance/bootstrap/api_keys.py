"""The API keys of this process's deployment, and who is let in."""

from abeyance.bootstrap.stores import Stores
from abeyance.engine.api_keys import ApiKeys, Projects
from abeyance.engine.workspace_log import WorkspaceLog
from abeyance.http.authentication import Authentication, AuthenticationOff, DeploymentKey, Keys
from abeyance.journal.api_keys import ApiKeyStore
from abeyance.journal.sqlite.api_keys import SQLiteApiKeys
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore
from abeyance.settings import Settings


def open_api_keys(stores: Stores, projects: Projects) -> ApiKeys:
    """The keys in the deployment's journal."""
    log = WorkspaceLog(stores.journal, stores.desk)
    return ApiKeys(_rows_of(stores.journal), log, stores.world, projects)


def authentication(settings: Settings, keys: ApiKeys, *, worker: bool) -> Authentication:
    """Who is let in, as the settings say. A worker without a deployment's key shows everybody the one thing
    that it asks a key for: its counters.
    """
    if not settings.auth or (worker and settings.api_key is None):
        return AuthenticationOff(keys)
    deployment = None if settings.api_key is None else DeploymentKey(settings.api_key, keys)
    return Keys(deployment, keys)


def _rows_of(journal: JournalStore) -> ApiKeyStore:
    if isinstance(journal, SQLiteJournalStore):
        return SQLiteApiKeys(journal)
    from abeyance.journal.postgres.api_keys import PostgresApiKeys
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(journal, PostgresJournalStore)
    return PostgresApiKeys(journal)
