"""The attempts at links of this process: where they are kept, and what writes them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from abeyance.bootstrap.stores import Stores
from abeyance.engine.attempts import LinkAttempts
from abeyance.http.client_address import Proxies
from abeyance.http.link_attempts import AttemptNotes, QueuedNotes
from abeyance.journal.attempts import AttemptStore
from abeyance.journal.sqlite.attempts import SQLiteAttempts
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore
from abeyance.settings import Settings


@asynccontextmanager
async def open_attempts(stores: Stores) -> AsyncIterator[LinkAttempts]:
    """Attempts at links, written behind the replies until this is left."""
    secret = await stores.keys.secret("link-attempts")
    attempts = LinkAttempts(_rows_of(stores.journal), stores.world, secret)
    writing = asyncio.create_task(attempts.run())
    try:
        yield attempts
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        await attempts.close()


def notes_of(settings: Settings, attempts: LinkAttempts) -> AttemptNotes:
    """What notes the attempts, by the addresses of those whom the limit counts."""
    return QueuedNotes(attempts, Proxies(settings.trusted_proxies).key_of)


def _rows_of(journal: JournalStore) -> AttemptStore:
    if isinstance(journal, SQLiteJournalStore):
        return SQLiteAttempts(journal)
    from abeyance.journal.postgres.attempts import PostgresAttempts
    from abeyance.journal.postgres.store import PostgresJournalStore

    assert isinstance(journal, PostgresJournalStore)
    return PostgresAttempts(journal)
