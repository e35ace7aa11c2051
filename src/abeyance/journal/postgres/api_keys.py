"""API keys on PostgreSQL: see `abeyance.journal.api_keys`. Each method is one statement."""

from typing import Any

from abeyance.errors import StoreUnavailableError
from abeyance.journal.api_keys import ApiKeyRow, StreamAppend
from abeyance.journal.postgres.failures import ConnectionLostError
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import Statement, statement, value_of

_COLUMNS = "id, digest, name, workspace, project, grants, executes, created, expires, revoked, actor"
_FIND = statement(f"SELECT {_COLUMNS} FROM api_keys WHERE digest = $1", "bytea")
_GET = statement(f"SELECT {_COLUMNS} FROM api_keys WHERE workspace = $1 AND id = $2", "text", "text")
_PAGE = statement(
    f"""
    SELECT {_COLUMNS} FROM api_keys
    WHERE workspace = $1 AND id COLLATE "C" > $3 AND ($2 IS NULL OR project = $2)
    ORDER BY id COLLATE "C" LIMIT $4
    """,
    "text", "text", "text", "bigint",
)  # fmt: skip
_STREAM = ("uuid", "bigint", "bigint[]", "text[]", "bytea[]")
_CREATE = value_of(
    "api_key_create",
    *_STREAM,
    "text", "bytea", "text", "text", "text", "text[]", "boolean", "text[]", "bigint", "bigint", "text",
)  # fmt: skip
_REVOKE = value_of("api_key_revoke", *_STREAM, "text", "bigint")


class PostgresApiKeys:
    """See `ApiKeyStore`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def find(self, digest: bytes) -> ApiKeyRow | None:
        """See `ApiKeyStore.find`."""
        return _first(await self._store.fetch(_FIND, digest))

    async def get(self, workspace: str, key_id: str) -> ApiKeyRow | None:
        """See `ApiKeyStore.get`."""
        return _first(await self._store.fetch(_GET, workspace, key_id))

    async def page(self, workspace: str, project: str | None, after: str, limit: int) -> list[ApiKeyRow]:
        """See `ApiKeyStore.page`."""
        return [_row(found) for found in await self._store.fetch(_PAGE, workspace, project, after, limit)]

    async def create(self, row: ApiKeyRow, append: StreamAppend) -> bool:
        """See `ApiKeyStore.create`."""
        return await self._change(
            _CREATE, append,
            row.id, row.digest, row.name, row.workspace, row.project, row.grants,
            row.executes is None, row.executes or (), row.created, row.expires, row.actor,
        )  # fmt: skip

    async def revoke(self, key_id: str, revoked: int, append: StreamAppend) -> bool:
        """See `ApiKeyStore.revoke`."""
        return await self._change(_REVOKE, append, key_id, revoked)

    async def _change(self, query: Statement, append: StreamAppend, *values: Any) -> bool:
        versions, topics, states = ([event[column] for event in append.events] for column in (1, 2, 3))
        try:
            ((won,),) = await self._store.fetch(
                query, append.stream, append.expected, versions, topics, states, *values
            )
        except ConnectionLostError as lost:
            if await self._store.has_landed(append.events[0], lost):
                return True
            raise StoreUnavailableError(
                "the connection to the database was lost, nothing was written"
            ) from lost
        return bool(won)


def _first(rows: list[tuple[Any, ...]]) -> ApiKeyRow | None:
    return _row(rows[0]) if rows else None


def _row(found: tuple[Any, ...]) -> ApiKeyRow:
    row = ApiKeyRow(*found)
    executes = row.executes
    return row._replace(grants=tuple(row.grants), executes=None if executes is None else tuple(executes))
