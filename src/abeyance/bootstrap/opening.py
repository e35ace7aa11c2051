"""Opening a deployment's stores and engine in the running loop, and closing them in order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from abeyance.bootstrap.identity import Identity, open_identity, record_definitions
from abeyance.bootstrap.keys import DeploymentKeys, load_keys, make_keys
from abeyance.bootstrap.reading import open_read_models
from abeyance.engine.acceptor import Acceptor
from abeyance.engine.actor import Barrier
from abeyance.engine.answers import AnswerChecks
from abeyance.engine.definitions import Definitions
from abeyance.engine.effects import Workshop
from abeyance.engine.executor import Executor, Limits
from abeyance.engine.keyring import KeyRing
from abeyance.engine.packs import load_pack
from abeyance.engine.runs import Runs
from abeyance.errors import ConfigurationError
from abeyance.journal.batch import Desk
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DefinitionRef
from abeyance.journal.store import JournalStore, KeyStore
from abeyance.journal.vault import Vault
from abeyance.settings import Settings
from abeyance.world import SystemWorld

_log = logging.getLogger("abeyance.bootstrap")
_CLOCK_EVERY_S = 30.0
# A sync handler past its time limit keeps its thread; the calls after it must still find one.
_SPARE_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """An open journal with its identity, and what reading and writing its events takes."""

    journal: JournalStore
    keys: KeyStore
    identity: Identity
    desk: Desk
    world: SystemWorld
    signers: DeploymentKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One process's engine: its service, its executor and what they stand on."""

    stores: Stores
    executor: Executor
    runs: Runs


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
        desk = Desk(EventCodec(identity.origin), Vault(identity.origin, world), signers.event, world)
        yield Stores(journal=journal, keys=keys, identity=identity, desk=desk, world=world, signers=signers)


@asynccontextmanager
async def open_engine(
    settings: Settings,
    *,
    public_url: Callable[[], str],
    dev: bool = False,
    testing_only_barrier: Barrier | None = None,
) -> AsyncIterator[Engine]:
    """The engine of this process, executing if the settings say so. Drains when it is left."""
    definitions = load_pack(settings.pack, settings.pack_dir).definitions
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(open_stores(settings, dev=dev))
        await _record(stores, definitions)
        threads = ThreadPoolExecutor(settings.max_calls * _SPARE_THREADS, thread_name_prefix="calls")
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        workshop = Workshop(threads, asyncio.Semaphore(settings.max_calls), public_url)
        executor = Executor(
            desk=stores.desk,
            store=stores.journal,
            keys=KeyRing(stores.keys),
            definitions=definitions,
            workshop=workshop,
            limits=_limits(settings, dev=dev),
            testing_only_barrier=testing_only_barrier,
        )
        reading = await stack.enter_async_context(open_read_models(settings, stores))
        acceptor = Acceptor(executor, AnswerChecks(definitions, stores.journal))
        clock = asyncio.create_task(_follow_clock(stores))
        stack.callback(clock.cancel)
        await executor.start()
        stack.push_async_callback(executor.stop)
        yield Engine(stores=stores, executor=executor, runs=Runs(executor, acceptor, reading))


def _limits(settings: Settings, *, dev: bool) -> Limits:
    return Limits(
        lease_s=settings.lease_s,
        poll_s=settings.poll_ms / 1000,
        grace_s=0 if dev else 60.0,
        hot_runs=settings.hot_runs,
        drain_s=settings.drain_s,
        execute=settings.execute,
    )


async def open_journal(settings: Settings, world: SystemWorld) -> JournalStore:
    """The journal that the settings name, migrated to this release."""
    if settings.database_url is not None and settings.on_postgres:
        from abeyance.journal.postgres.migrations import migrate
        from abeyance.journal.postgres.store import open_postgres

        await asyncio.to_thread(migrate, settings.database_url)
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
    from abeyance.journal.events import DEPLOYMENT_STREAM

    opened, _ = await journal.read_events(DEPLOYMENT_STREAM, after=0, limit=1, contents=False)
    if opened:
        return load_keys(with_keys), settings.origin
    if settings.key("event") is None and not (folder / "event.pem").exists():
        await asyncio.to_thread(make_keys, folder)
    return load_keys(with_keys), settings.origin or f"localhost/{world.random_bytes(4).hex()}"


async def _record(stores: Stores, definitions: Definitions) -> None:
    documents: dict[bytes, bytes] = {}
    refs = []
    for tool in (*definitions.tools.values(), *(s.tool for f in definitions.flows.values() for s in f.steps)):
        for shape in (tool.input, tool.output):
            documents[bytes.fromhex(shape.digest)] = shape.document
    for kind, found in (("flow", definitions.flows), ("script", definitions.scripts)):
        for definition in found.values():
            documents[bytes.fromhex(definition.digest)] = definition.document
            refs.append(
                DefinitionRef.model_validate(
                    {
                        "digest": definition.digest,
                        "id": definition.id,
                        "kind": kind,
                        "version": definition.version,
                    }
                )
            )
    desk = stores.desk
    await record_definitions(stores.journal, desk.codec, stores.signers.event, stores.world, documents, refs)


async def _follow_clock(stores: Stores) -> None:
    """Keep to the deployment's one time source: PostgreSQL's clock, measured every 30 s."""
    measure = getattr(stores.journal, "clock_offset", None)
    while measure is not None:
        await asyncio.sleep(_CLOCK_EVERY_S)
        try:
            stores.world.correct(await measure())
        except Exception:
            _log.warning("the database's clock can't be read; going on with the last offset")
