"""Signing keys on PostgreSQL: see `abeyance.journal.signing_keys`. Each method is one statement."""

from abeyance.errors import StoreUnavailableError
from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.postgres.failures import ConnectionLostError
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement, value_of
from abeyance.journal.signing_keys import Ended

_END = value_of("signing_key_end", "uuid", "bigint", "bigint[]", "text[]", "bytea[]", "bytea", "text")
_ENDED = statement("SELECT kid, state FROM signing_keys")


class PostgresSigningKeys:
    """See `SigningKeyStore`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def end(self, kid: bytes, state: Ended, append: StreamAppend) -> bool:
        """See `SigningKeyStore.end`."""
        versions, topics, states = ([event[column] for event in append.events] for column in (1, 2, 3))
        try:
            ((won,),) = await self._store.fetch(
                _END, append.stream, append.expected, versions, topics, states, kid, state
            )
        except ConnectionLostError as lost:
            if await self._store.has_landed(append.events[0], lost):
                return True
            raise StoreUnavailableError(
                "the connection to the database was lost, nothing was written"
            ) from lost
        return bool(won)

    async def ended(self) -> dict[bytes, Ended]:
        """See `SigningKeyStore.ended`."""
        return {bytes(kid): state for kid, state in await self._store.fetch(_ENDED)}
