"""An engine in this process over a real store: definitions in, a running executor out.

`Deployment.process` opens one more "process" (own sessions, own leases) over the same store, so that two of
them race through the store alone, as two machines would.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from abeyance.bootstrap.tenants import tenant_rows
from abeyance.crypto.signing import FileSigner
from abeyance.engine.acceptor import Acceptor
from abeyance.engine.answers import AnswerChecks
from abeyance.engine.attempts import LinkAttempts
from abeyance.engine.definitions import Definitions, Flow, Script, Tool
from abeyance.engine.effects import Workshop
from abeyance.engine.executor import Executor, Limits
from abeyance.engine.keyring import KeyRing
from abeyance.engine.runs import Runs
from abeyance.engine.service import StartRun
from abeyance.engine.sweeping import Sweeper
from abeyance.engine.tenants import Tenants
from abeyance.engine.waits import Waits
from abeyance.engine.workspace_log import WorkspaceLog
from abeyance.journal.attempts import AttemptStore
from abeyance.journal.batch import Desk
from abeyance.journal.envelope import EventCodec, Recorded
from abeyance.journal.postgres.attempts import PostgresAttempts
from abeyance.journal.sqlite.attempts import SQLiteAttempts
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore, KeyStore
from abeyance.journal.vault import Vault
from abeyance.projections.views import RunView
from abeyance.world import SystemWorld

ORIGIN = "abeyance.example/test"
SIGNER = FileSigner.from_seed(b"\x02" * 32)


class TestWorld(SystemWorld):
    """A real clock that a test may move."""

    __test__ = False

    def advance(self, by: timedelta) -> None:
        """Let `by` pass at once."""
        self._offset += by

    def now(self) -> datetime:
        """The moved time."""
        return super().now()


@dataclass(slots=True)
class EngineProcess:
    """One process: its executor and its service."""

    executor: Executor
    runs: Runs
    waits: Waits
    attempts: LinkAttempts
    tenants: Tenants
    sweeper: Sweeper
    desk: Desk
    store: JournalStore

    async def start(self, definition: Flow | Script, given: bytes = b"{}", **more: Any) -> RunView:
        """Start a run and wait until it rests."""
        kind = "flow" if isinstance(definition, Flow) else "script"
        return await self.runs.start(StartRun(kind=kind, id=definition.id, input=given, **more))

    async def answer(self, url: str, value: bytes) -> None:
        """Answer at a link, as the API does."""
        token = url.rsplit("/", 2)[1]
        await (await self.runs.open_link(token)).answer(value)

    async def settled(self, run_id: UUID, *statuses: str, within_s: float = 10.0) -> RunView:
        """The run once it has one of `statuses` (default: it has ended)."""
        wanted = statuses or ("completed", "failed", "cancelled")
        end = asyncio.get_running_loop().time() + within_s
        while True:
            view = await self.runs.get(run_id)
            if view.status in wanted:
                return view
            assert asyncio.get_running_loop().time() < end, (
                f"still {view.status}: {await self.topics(run_id)}"
            )
            await asyncio.sleep(0.005)

    def vanish(self) -> None:
        """Forget everything without a word, as if the process were killed and another took its place.

        What is on its way to the store may still land.
        """
        executor = self.executor
        for actor in list(executor.actors.values()):
            actor.lost = True
            for task in (*actor._calls.tasks, actor._pump):
                if task is not None:
                    task.cancel()
            actor.close()
        executor.actors.clear()
        for known in (executor.leases, executor._warm, executor._links):
            known.clear()

    async def history(self, run_id: UUID) -> list[Recorded]:
        """The run's events, each with its signature checked."""
        stored = await self.store.read_run(run_id)
        assert stored is not None
        return [self.desk.codec.verify(row, {SIGNER.kid: SIGNER.public_key}) for row in stored.events]

    async def topics(self, run_id: UUID) -> list[str]:
        """The run's topics in order."""
        return [recorded.topic for recorded in await self.history(run_id)]


def attempts_of(store: JournalStore) -> AttemptStore:
    """The attempts at links beside this journal."""
    if isinstance(store, SQLiteJournalStore):
        return SQLiteAttempts(store)
    return PostgresAttempts(store)  # type: ignore[arg-type] # there are two kinds of stores


class NoLists:
    """No following read models."""

    async def runs(self, query: object) -> Any:
        """Not here."""
        raise NotImplementedError

    async def waits(self, query: object) -> Any:
        """Not here."""
        raise NotImplementedError

    async def audit_log(self, **filters: object) -> Any:
        """Not here."""
        raise NotImplementedError


def definitions_of(*given: Flow | Script | Tool) -> Definitions:
    """A pack of these."""
    found = Definitions()
    for each in given:
        if isinstance(each, Flow):
            found.flows[each.id] = each
            found.tools.update((step.tool.id, step.tool) for step in each.steps)
        elif isinstance(each, Script):
            found.scripts[each.id] = each
        else:
            found.tools[each.id] = each
    return found


@dataclass(slots=True)
class Deployment:
    """A store, its keys, and the processes over it."""

    store: JournalStore
    keys: KeyStore
    world: TestWorld = field(default_factory=TestWorld)
    hot_runs: int | None = None
    """How many runs each process keeps warm, whatever its limits say; 0 turns the cache off."""

    def desk(self) -> Desk:
        """What reads and writes this deployment's events."""
        return Desk(EventCodec(ORIGIN), Vault(ORIGIN, self.world), SIGNER, self.world)

    def limits(self, given: Limits | None) -> Limits:
        """The limits of a process: quick, unless `given` says otherwise."""
        limits = given or Limits(poll_s=0.02, grace_s=0, drain_s=1)
        return limits if self.hot_runs is None else replace(limits, hot_runs=self.hot_runs)

    @asynccontextmanager
    async def process(
        self,
        *definitions: Flow | Script | Tool,
        limits: Limits | None = None,
        barrier: Callable[[str, UUID], Awaitable[None]] | None = None,
        loops: bool = True,
    ) -> AsyncIterator[EngineProcess]:
        """One executing process with these definitions loaded."""
        desk = self.desk()
        loaded = definitions_of(*definitions)
        with ThreadPoolExecutor(8) as threads:
            workshop = Workshop(threads, asyncio.Semaphore(16), lambda: "http://public.example")
            executor = Executor(
                desk=desk,
                store=self.store,
                keys=KeyRing(self.keys),
                definitions=loaded,
                workshop=workshop,
                limits=self.limits(limits),
                testing_only_barrier=barrier,
            )
            database = getattr(self.store, "wrapped", self.store)  # not what a faulty store stands for
            rows = tenant_rows(database)
            tenants = Tenants(rows, WorkspaceLog(self.store, desk), self.world, suspended=lambda: None)
            sweeper = Sweeper(executor, tenants, rows, page=5)
            acceptor = Acceptor(executor, AnswerChecks(loaded, self.store))
            runs = Runs(executor, acceptor, NoLists(), tenants)
            attempts = LinkAttempts(attempts_of(database), self.world, b"\x0a" * 32)
            waits = Waits(executor, NoLists(), attempts)
            if loops:
                await executor.start()
            try:
                yield EngineProcess(executor, runs, waits, attempts, tenants, sweeper, desk, self.store)
            finally:
                await executor.stop()
