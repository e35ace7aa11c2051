"""Opening a deployment's stores in the running loop: journal, key store, and who the deployment is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from abeyance.bootstrap.identity import Identity, open_identity
from abeyance.bootstrap.keys import DeploymentKeys, load_keys, make_keys
from abeyance.errors import ConfigurationError
from abeyance.journal.batch import Desk
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import JournalSnapshot, JournalStore, KeyStore
from abeyance.journal.vault import Vault
from abeyance.settings import Settings
from abeyance.world import SystemWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """An open journal with its identity, and what reading and writing its events takes."""

    journal: JournalStore
    keys: KeyStore
    identity: Identity
    desk: Desk
    world: SystemWorld
    signers: DeploymentKeys


@asynccontextmanager
async def open_stores(settings: Settings, *, dev: bool = False) -> AsyncIterator[Stores]:
    """Journal and key store, migrated and checked. `dev` makes keys and an origin for a new store."""
    world = SystemWorld()
    async with AsyncExitStack() as stack:
        journal = await open_journal(settings, world)
        stack.push_async_callback(journal.close)
        signers, origin = await _signers(settings, journal, world, dev=dev)
        keys = await _open_keys(settings, signers.master, world)
        stack.push_async_callback(keys.close)
        identity = await open_identity(journal, signers, world, origin)
        desk = Desk(
            EventCodec(identity.origin),
            Vault(identity.origin, world),
            signers.event,
            world,
            identity.event_keys(),
        )
        yield Stores(journal=journal, keys=keys, identity=identity, desk=desk, world=world, signers=signers)


@asynccontextmanager
async def open_moment(settings: Settings) -> AsyncIterator[JournalSnapshot]:
    """One moment of the journal, read only: also beside the process that serves a SQLite store."""
    file = settings.journal_file
    if file is not None:
        if not file.exists():
            raise ConfigurationError(f"there is no journal at {file}")
        from abeyance.journal.sqlite.snapshot import open_snapshot

        async with open_snapshot(file) as moment:
            yield moment
        return
    journal = await open_journal(settings, SystemWorld())
    try:
        async with journal.snapshot() as moment:
            yield moment
    finally:
        await journal.close()


async def open_journal(settings: Settings, world: SystemWorld) -> JournalStore:
    """The journal that the settings name, migrated to this release."""
    if settings.database_url is not None and settings.on_postgres:
        from abeyance.journal.postgres.migrations import migrate
        from abeyance.journal.postgres.store import open_postgres
        from abeyance.projections.postgres import migrate_read_models

        await asyncio.to_thread(migrate, settings.database_url)
        await asyncio.to_thread(migrate_read_models, settings.database_url)
        journal = await open_postgres(settings.database_url, world)
        world.correct(await journal.clock_offset())
        return journal
    from abeyance.journal.sqlite.store import open_sqlite

    file = settings.journal_file
    if file is None:
        raise ConfigurationError("ABEYANCE_DATABASE_URL: sqlite:/// needs the path of a file")
    return await open_sqlite(file.parent, world, database=file.name)


async def _open_keys(settings: Settings, master: bytes, world: SystemWorld) -> KeyStore:
    file = settings.keys_file
    if file is not None:
        from abeyance.journal.sqlite.keystore import open_sqlite_keys

        return await open_sqlite_keys(file.parent, master, world, database=file.name)
    from abeyance.journal.postgres.keystore import open_postgres_keys
    from abeyance.journal.postgres.migrations import migrate_keys

    url = settings.keys_url or settings.database_url
    if url is None:
        raise ConfigurationError("ABEYANCE_KEYS_URL is not set")
    await asyncio.to_thread(migrate_keys, url)
    return await open_postgres_keys(url, master, world)


async def _signers(
    settings: Settings, journal: JournalStore, world: SystemWorld, *, dev: bool
) -> tuple[DeploymentKeys, str | None]:
    """The deployment's keys and origin. In `dev` both are made, but never for a store that has a log."""
    if not dev:
        return load_keys(settings), settings.origin
    folder = settings.key_dir or settings.data_dir / "keys"
    with_keys = settings.model_copy(update={"key_dir": folder})
    opened, _ = await journal.read_events(DEPLOYMENT_STREAM, after=0, limit=1, contents=False)
    if opened:
        return load_keys(with_keys), settings.origin
    if settings.event_key is None and settings.key_dir is None and not (folder / "event.pem").exists():
        await asyncio.to_thread(make_keys, folder)
    return load_keys(with_keys), settings.origin or f"localhost/{world.random_bytes(4).hex()}"
