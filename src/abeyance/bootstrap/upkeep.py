"""Work on a store beside serving: migrations, rebuilding and checking of read models."""

import asyncio
from typing import Any

from abeyance.bootstrap.progress import shown_count, shown_progress
from abeyance.bootstrap.reading import open_reading
from abeyance.bootstrap.stores import open_journal, open_moment, open_stores
from abeyance.errors import BadInputError, ConfigurationError
from abeyance.journal.envelope import EventCodec, read_origin
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.projections.checking import check as check_models
from abeyance.projections.rebuilding import rebuild as rebuild_model
from abeyance.settings import Settings
from abeyance.world import SystemWorld


def migrate(settings: Settings) -> list[str]:
    """Bring the store to this release; opening a SQLite store does it, PostgreSQL's scripts are applied
    here."""

    if settings.database_url is not None and settings.on_postgres:
        from abeyance.journal.postgres.migrations import migrate as journal
        from abeyance.journal.postgres.migrations import migrate_keys
        from abeyance.projections.postgres import migrate_read_models

        applied = [f"journal to version {journal(settings.database_url)}"]
        if settings.keys_file is None:
            applied.append(f"keys to version {migrate_keys(settings.keys_url or settings.database_url)}")
        applied.append(f"read models to version {migrate_read_models(settings.database_url)}")
        return applied
    asyncio.run(_open_and_close(settings))
    return []


async def _open_and_close(settings: Settings) -> None:
    journal = await open_journal(settings, SystemWorld())
    await journal.close()


def rebuild(settings: Settings, name: str) -> dict[str, Any]:
    """Build a following read model anew, beside the one in use, and swap it in; a bar at a terminal."""
    return asyncio.run(_rebuild(settings, name))


async def _rebuild(settings: Settings, name: str) -> dict[str, Any]:
    async with open_stores(settings, dev=is_dev(settings)) as stores:
        reading = await open_reading(stores)
        if name != reading.runs.name:
            raise BadInputError(f"no read model of this name is rebuilt; there is {reading.runs.name!r}")
        with shown_progress(f"rebuilding {name}") as progress:
            done = await rebuild_model(reading.runs, stores.journal, reading.store, progress=progress)
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


def is_dev(settings: Settings) -> bool:
    """Whether the store is one that `abeyance dev` made the keys of."""
    return settings.event_key is None and settings.key_dir is None
