"""Opening one process's engine in the running loop, and closing it in order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from abeyance.audit.service import AuditService
from abeyance.bootstrap.api_keys import open_api_keys
from abeyance.bootstrap.attempts import open_attempts
from abeyance.bootstrap.idempotency import open_idempotency
from abeyance.bootstrap.identity import record_definitions
from abeyance.bootstrap.logkeeping import keeping_log
from abeyance.bootstrap.reading import following
from abeyance.bootstrap.stores import Stores, open_stores
from abeyance.bootstrap.tenants import open_tenants
from abeyance.bootstrap.upkeep import cancel_runs_of_suspended, remove_expired_replies
from abeyance.engine.acceptor import Acceptor
from abeyance.engine.answers import AnswerChecks
from abeyance.engine.api_keys import ApiKeys
from abeyance.engine.attempts import LinkAttempts
from abeyance.engine.definitions import Definitions
from abeyance.engine.effects import Workshop
from abeyance.engine.executor import Executor, Limits
from abeyance.engine.host import Barrier
from abeyance.engine.keyring import KeyRing
from abeyance.engine.packs import load_pack
from abeyance.engine.replies import Replies
from abeyance.engine.runs import Runs
from abeyance.engine.tenants import Tenants
from abeyance.engine.waits import Waits
from abeyance.journal.events import DefinitionRef
from abeyance.settings import Settings

_log = logging.getLogger("abeyance.bootstrap")
_CLOCK_EVERY_S = 30.0
# A sync handler past its time limit keeps its thread; the calls after it must still find one.
_SPARE_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One process's engine: its services, its executor, its idempotency keys, the attempts at its links, its
    log, its API keys, its workspaces and projects, and what they stand on.
    """

    stores: Stores
    replies: Replies
    executor: Executor
    runs: Runs
    waits: Waits
    attempts: LinkAttempts
    audit: AuditService
    api_keys: ApiKeys
    tenants: Tenants


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
        keys = KeyRing(stores.keys)
        executor = Executor(
            desk=stores.desk,
            store=stores.journal,
            keys=keys,
            definitions=definitions,
            workshop=workshop,
            limits=_limits(settings, dev=dev),
            testing_only_barrier=testing_only_barrier,
        )
        reading = await stack.enter_async_context(following(stores))
        log = await stack.enter_async_context(keeping_log(stores, reading, settings.audit_mirror))
        acceptor = Acceptor(executor, AnswerChecks(definitions, stores.journal))
        replies = await open_idempotency(stores, keys)
        tenants = open_tenants(stores, executor)
        for work in (_follow_clock(stores), remove_expired_replies(replies)):
            stack.callback(asyncio.create_task(work).cancel)
        await executor.start()
        stack.push_async_callback(executor.stop)
        sweeping = asyncio.create_task(cancel_runs_of_suspended(tenants.sweeper, tenants.wake))
        stack.callback(sweeping.cancel)
        runs = Runs(executor, acceptor, reading.lists, tenants.service)
        attempts = await stack.enter_async_context(open_attempts(stores))
        waits = Waits(executor, reading.lists, attempts)
        yield Engine(
            stores=stores,
            replies=replies,
            executor=executor,
            runs=runs,
            waits=waits,
            attempts=attempts,
            audit=log.service,
            api_keys=open_api_keys(stores, tenants.service),
            tenants=tenants.service,
        )


def _limits(settings: Settings, *, dev: bool) -> Limits:
    return Limits(
        lease_s=settings.lease_s,
        poll_s=settings.poll_ms / 1000,
        grace_s=0 if dev else 60.0,
        hot_runs=settings.hot_runs,
        drain_s=settings.drain_s,
        execute=settings.execute,
    )


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
