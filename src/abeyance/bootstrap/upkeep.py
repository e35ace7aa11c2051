"""Work on a store beside serving: migrations, verification, read models. Each opens the store by itself."""

import asyncio
from typing import Any
from uuid import UUID

from abeyance.audit.history import verify_run as verify_history
from abeyance.audit.keys import certified_keys
from abeyance.bootstrap.identity import read_stream
from abeyance.bootstrap.progress import shown_progress
from abeyance.bootstrap.reading import open_reading
from abeyance.bootstrap.stores import open_journal, open_stores
from abeyance.errors import BadInputError, RunNotFoundError
from abeyance.journal.envelope import EventCodec
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


def verify_run(settings: Settings, run_id: str) -> dict[str, Any]:
    """Verify signature, chain and rules of every event of a run, by the keys that the store's log certifies.

    Needs no key. The verdict is `tampered` if a finding proves it; `unanchored` if all holds but no root
    key was given from elsewhere (`ABEYANCE_ROOT_KEY` or the key folder); else `verified`.
    """
    return asyncio.run(_verify_run(settings, run_id))


async def _verify_run(settings: Settings, run_id: str) -> dict[str, Any]:
    try:
        stream = UUID(run_id)
    except ValueError as error:
        raise BadInputError("a run's id is a UUID") from error
    journal = await open_journal(settings, SystemWorld())
    try:
        deployment = await read_stream(journal, DEPLOYMENT_STREAM)
        stored = await journal.read_run(stream)
    finally:
        await journal.close()
    if stored is None:
        raise RunNotFoundError
    keys = certified_keys(deployment, _pinned_root(settings))
    findings = list(keys.findings) + verify_history(
        stored.events, keys.event_keys, codec=EventCodec(keys.origin), control=stored.control
    )
    verdict = "tampered" if findings else "verified" if keys.anchored else "unanchored"
    return {
        "verdict": verdict,
        "run": run_id,
        "events": len(stored.events),
        "log": keys.origin,
        "findings": [
            {"rule": f.rule, "event": f.version, "kind": f.topic, "problem": f.problem} for f in findings
        ],
    }


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
    async with open_stores(settings, dev=is_dev(settings)) as stores:
        reading = await open_reading(stores)
        await reading.follower.catch_up()
        async with stores.journal.snapshot() as snapshot:
            report = await check_models(snapshot, stores.desk.codec)
    return {
        "streams": report.streams,
        "events": report.events,
        "position": report.position,
        "drift": [str(drift) for drift in report.drift],
    }


def is_dev(settings: Settings) -> bool:
    """Whether the store is one that `abeyance dev` made the keys of."""
    return settings.event_key is None and settings.key_dir is None


def _pinned_root(settings: Settings) -> bytes | None:
    from abeyance.crypto.signing import FileSigner

    pem = settings.key("root")
    if pem is None and (settings.data_dir / "keys" / "root.pem").exists():
        pem = (settings.data_dir / "keys" / "root.pem").read_bytes()
    return None if pem is None else FileSigner.from_pem(pem).public_key
