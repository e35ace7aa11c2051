"""The idempotency keys of this process's deployment."""

from abeyance.bootstrap.stores import Stores
from abeyance.engine.keyring import KeyRing
from abeyance.engine.replies import Replies, open_replies
from abeyance.journal.replies import ReplyStore
from abeyance.journal.sqlite.replies import SQLiteReplies
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore


async def open_idempotency(stores: Stores, keys: KeyRing) -> Replies:
    """The keys that were used, in the deployment's journal."""
    return await open_replies(_rows_of(stores.journal), stores.keys, keys, stores.world)


def _rows_of(journal: JournalStore) -> ReplyStore:
    if isinstance(journal, SQLiteJournalStore):
        return SQLiteReplies(journal)
    from abeyance.journal.postgres.replies import PostgresReplies
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(journal, PostgresJournalStore)
    return PostgresReplies(journal)
