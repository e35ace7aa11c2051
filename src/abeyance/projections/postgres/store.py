"""`ReadModelStore` on PostgreSQL: each write is one call of one function: one transaction, one round trip.

What a crash takes of a read model is applied again, since rows and position go together; so its commits don't
wait for the disk.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from abeyance.errors import StoreUnavailableError
from abeyance.journal.postgres.migrations import Schema, bring_up_to_date
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import rows_of, statement, value_of
from abeyance.projections.read_models import Place, RunsChanges
from abeyance.projections.waits_list import WaitChange

READ_MODELS = Schema("migrations", "read_models_version", "abeyance.projections.postgres")
CLEARED_A_TIME = 2_000

_PLACE = rows_of("read_model_place", "text")
_BEGIN = value_of("read_model_begin", "text")
_SWAP = value_of("read_model_swap", "text", "bigint")
_FORGET = statement("DELETE FROM read_models WHERE name = $1 AND generation < $2", "text", "bigint")
_CLEAR = {
    "runs": value_of("runs_list_clear", "bigint", "bigint"),
    "waits": value_of("waits_list_clear", "bigint", "bigint"),
}
_APPLY_WAITS = value_of(
    "waits_list_apply", "bigint", "bigint", "boolean", "bigint",
    "text[]", "uuid[]", "text[]", "text[]", "text[]", "bigint[]", "bigint[]",
    "bigint[]", "text[]", "text[]", "text[]", "text[]", "text[]",
)  # fmt: skip
_APPLY_RUNS = value_of(
    "runs_list_apply", "bigint", "bigint", "boolean", "bigint",
    "uuid[]", "bigint[]", "bigint[]", "text[]", "text[]",
    "uuid[]", "text[]", "text[]",
    "uuid[]", "bigint[]", "text[]",
)  # fmt: skip
_LEAD = value_of("follower_lead", "uuid", "bigint")
_RESIGN = statement("DELETE FROM follower_lease WHERE holder = $1", "uuid")
_TYPES: dict[type, str] = {UUID: "uuid", int: "bigint", str: "text", bytes: "bytea"}


class PostgresReadModels:
    """See `abeyance.projections.read_models.ReadModelStore`. Made by `open_postgres_read_models`."""

    def __init__(self, store: PostgresJournalStore) -> None:
        self._store = store

    async def place(self, model: str) -> Place:
        """See `ReadModelStore.place`."""
        found = await self._store.fetch(_PLACE, model)
        if not found:  # somebody else made it in the same moment
            found = await self._store.fetch(_PLACE, model)
        return Place(*found[0])

    async def begin(self, model: str) -> Place:
        """See `ReadModelStore.begin`."""
        ((generation,),) = await self._store.fetch(_BEGIN, model)
        return Place(generation, 0, False)

    async def swap(self, model: str, generation: int) -> bool:
        """See `ReadModelStore.swap`."""
        return bool((await self._store.fetch(_SWAP, model, generation))[0][0])

    async def clear(self, model: str, generation: int) -> None:
        """See `ReadModelStore.clear`."""
        await self._store.fetch(_FORGET, model, generation)
        while (await self._store.fetch(_CLEAR[model], generation, CLEARED_A_TIME))[0][0]:
            pass

    async def apply_runs(self, place: Place, position: int, changes: RunsChanges) -> bool:
        """See `ReadModelStore.apply_runs`."""
        labels = [(run.run_id, name, value) for run in changes.new for name, value in run.labels.items()]
        columns = [
            *([run[column] for run in changes.new] for column in range(5)),
            *([label[column] for label in labels] for column in range(3)),
            *([run[column] or "" for run in changes.changed] for column in range(3)),
        ]
        ((moved,),) = await self._store.fetch(
            _APPLY_RUNS, place.generation, place.position, place.live, position, *columns
        )
        return bool(moved)

    async def apply_waits(self, place: Place, position: int, changes: Sequence[WaitChange]) -> bool:
        """See `ReadModelStore.apply_waits`."""
        columns = ([change[column] for change in changes] for column in range(13))
        ((moved,),) = await self._store.fetch(
            _APPLY_WAITS, place.generation, place.position, place.live, position, *columns
        )
        return bool(moved)

    async def select(self, text: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """See `ReadModelStore.select`."""
        return await self._store.fetch(statement(text, *(_TYPES[type(value)] for value in values)), *values)

    async def lead(self, holder: UUID, seconds: float) -> bool:
        """See `ReadModelStore.lead`."""
        return bool((await self._store.fetch(_LEAD, holder, int(seconds * 1_000_000)))[0][0])

    async def resign(self, holder: UUID) -> None:
        """See `ReadModelStore.resign`."""
        await self._store.fetch(_RESIGN, holder)


def migrate_read_models(url: str) -> int:
    """Bring the read models' tables in the database at `url` to this release's version, which is returned."""
    return bring_up_to_date(READ_MODELS, url)


async def open_postgres_read_models(store: PostgresJournalStore) -> PostgresReadModels:
    """The read models in the journal's database. Raises `ConfigurationError` if they aren't migrated."""
    rows = await store.fetch(READ_MODELS.select_version)
    if not rows:
        raise StoreUnavailableError
    READ_MODELS.check_version(rows[0][0])
    return PostgresReadModels(store)
