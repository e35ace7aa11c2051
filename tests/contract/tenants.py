"""Sets the state of a workspace or project behind the store's back, as another process would."""

from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore

_WORKSPACE = "INSERT INTO workspaces (workspace, state, created, updated) VALUES ('{}', '{}', 1, 1)"
_PROJECT = (
    "INSERT INTO projects (workspace, project, state, created, updated) VALUES ('default', '{}', '{}', 1, 1)"
)


async def put_workspace(store: JournalStore, workspace: str, state: str) -> None:
    await _execute(store, _WORKSPACE.format(workspace, state))


async def put_project(store: JournalStore, project: str, state: str) -> None:
    """A project of the workspace `default`."""
    await _execute(store, _PROJECT.format(project, state))


async def _execute(store: JournalStore, text: str) -> None:
    if isinstance(store, SQLiteJournalStore):
        await store.write(lambda cursor: cursor.execute(text).rowcount)
    else:
        assert isinstance(store, PostgresJournalStore)
        await store.fetch(statement(text))
