"""Work on a store beside serving: migrations, rebuilding and checking of read models, removal of what has
expired.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from abeyance.bootstrap.progress import shown_count, shown_progress
from abeyance.bootstrap.reading import open_reading
from abeyance.bootstrap.stores import open_journal, open_moment, open_stores
from abeyance.bootstrap.tables import TableSet, table_sets
from abeyance.engine.replies import Replies
from abeyance.engine.sweeping import Sweeper
from abeyance.errors import BadInputError, ConfigurationError
from abeyance.journal.envelope import EventCodec, read_origin
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.projections.checking import check as check_models
from abeyance.projections.rebuilding import rebuild as rebuild_model
from abeyance.settings import Settings
from abeyance.world import SystemWorld

_log = logging.getLogger("abeyance.upkeep")
_EXPIRY_EVERY_S = 300.0
_SWEEP_EVERY_S = 1.0
# A page is one short transaction: what else is written meanwhile waits for no more than that.
_EXPIRED_AT_ONCE = 500


def migrate(settings: Settings) -> dict[str, Any]:
    """Bring the tables of journal, read models and key store to this release.

    `applied`: what was done to each set of tables that was older; `versions`: what they all are now.
    """
    before = table_sets(settings)
    for refusal in filter(None, (tables.refusal for tables in before)):
        raise ConfigurationError(refusal)
    if settings.database_url is not None and settings.on_postgres:
        _migrate_postgres(settings.database_url)
    else:
        asyncio.run(_open_and_close(settings))
    _migrate_keys(settings)
    now = {tables.name: tables.found for tables in table_sets(settings)}
    return {
        "applied": [_step(tables, now) for tables in before if tables.found != now[tables.name]],
        "versions": now,
    }


def _step(old: TableSet, now: Mapping[str, int]) -> dict[str, Any]:
    return {"tables": old.name, "from": old.found, "to": now[old.name]}


def _migrate_postgres(url: str) -> None:
    from abeyance.journal.postgres.migrations import migrate as migrate_journal
    from abeyance.projections.postgres import migrate_read_models

    migrate_journal(url)
    migrate_read_models(url)


def _migrate_keys(settings: Settings) -> None:
    """A SQLite key store is only brought up to date: who makes one needs the master key."""
    if settings.keys_file is None:
        from abeyance.journal.postgres.migrations import migrate_keys

        migrate_keys(settings.keys_url or settings.database_url or "")
    elif settings.keys_file.exists():
        from abeyance.journal.sqlite.keystore import migrate_sqlite_keys

        migrate_sqlite_keys(settings.keys_file)


async def _open_and_close(settings: Settings) -> None:
    from abeyance.journal.sqlite.store import SQLiteJournalStore
    from abeyance.projections.sqlite import open_sqlite_read_models

    journal = await open_journal(settings, SystemWorld())
    try:
        assert isinstance(journal, SQLiteJournalStore)
        await open_sqlite_read_models(journal)
    finally:
        await journal.close()


def rebuild(settings: Settings, name: str) -> dict[str, Any]:
    """Build a following read model anew, beside the one in use, and swap it in; a bar at a terminal."""
    return asyncio.run(_rebuild(settings, name))


async def _rebuild(settings: Settings, name: str) -> dict[str, Any]:
    async with open_stores(settings, dev=is_dev(settings)) as stores:
        reading = await open_reading(stores)
        model = reading.models.get(name)
        if model is None:
            known = ", ".join(sorted(reading.models))
            raise BadInputError(f"no read model of this name is rebuilt; there are: {known}")
        with shown_progress(f"rebuilding {name}") as progress:
            done = await rebuild_model(model, stores.journal, reading.store, progress=progress)
        return {"model": done.model, "generation": done.generation, "events": done.position}


def check(settings: Settings) -> dict[str, Any]:
    """Replay the journal as of one moment and compare every read model row by row."""
    return asyncio.run(_check(settings))


async def _check(settings: Settings) -> dict[str, Any]:
    async with open_moment(settings) as moment:
        (first,) = await moment.events(DEPLOYMENT_STREAM, after=0, limit=1) or (None,)
        if first is None:
            raise ConfigurationError("the store is new: there is nothing to check")
        with shown_count("streams checked") as progress:
            report = await check_models(moment, EventCodec(read_origin(first)), progress=progress)
    return {
        "streams": report.streams,
        "events": report.events,
        "position": report.position,
        "drift": [str(drift) for drift in report.drift],
    }


async def remove_expired_replies(replies: Replies) -> None:
    """Remove idempotency keys that have expired, every five minutes, page by page, until cancelled."""
    while True:
        await asyncio.sleep(_EXPIRY_EVERY_S)
        try:
            while await replies.remove_expired(_EXPIRED_AT_ONCE) == _EXPIRED_AT_ONCE:
                pass
        except Exception as error:
            _log.warning("expired idempotency keys couldn't be removed: %s", type(error).__name__)


async def cancel_runs_of_suspended(sweeper: Sweeper, wake: asyncio.Event) -> None:
    """Cancel the runs of suspended workspaces and projects: when `wake` is set, and every second what another
    process suspended, or left unfinished; until cancelled.
    """
    while True:
        wake.clear()
        try:
            while await sweeper.sweep():
                pass
        except Exception as error:
            _log.warning("runs of a suspended tenant couldn't be cancelled: %s", type(error).__name__)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), _SWEEP_EVERY_S)


def is_dev(settings: Settings) -> bool:
    """Whether the store is one that `abeyance dev` made the keys of."""
    return settings.event_key is None and settings.key_dir is None
