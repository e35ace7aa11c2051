"""Commands and queries over runs: the `RunService` that the outside speaks.

Runs that this process holds are answered from memory, the others from the inline read models, which are
written with the events and so never behind.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

from abeyance.engine import crash_loops, decisions
from abeyance.engine.acceptor import Acceptor, Answerable
from abeyance.engine.actor import Actor
from abeyance.engine.callers import Caller
from abeyance.engine.executor import Executor
from abeyance.engine.journal_pages import journal_page
from abeyance.engine.replies import UsedKey
from abeyance.engine.run_scopes import RunScope, RunScopes
from abeyance.engine.run_views import stored_view
from abeyance.engine.service import ListRuns, StartRun
from abeyance.engine.start_checks import check_input, checked_labels, checked_ttl, ref_of
from abeyance.engine.tenants import Admission, Anywhere
from abeyance.engine.turn import Session, Turn
from abeyance.errors import (
    BadInputError,
    ConflictError,
    ContentErasedError,
    DefinitionNotFoundError,
    IdempotencyKeyInFlightError,
    ResumeNotSupportedError,
    RunAlreadyTerminalError,
    RunNotFoundError,
    StoreUnavailableError,
    WaitTokenNotFoundError,
)
from abeyance.journal.run import ENDED, parse_token_id
from abeyance.projections.run_view import run_view_of
from abeyance.projections.views import AuditRecord, JournalEntry, Page, RunView
from abeyance.world import uuid7

APP_KEY = "app-key"
_TRIES = 20
_FIRST_LOOK_S = 0.02
_LONGEST_LOOK_S = 0.25


Sees = Callable[[UUID], Awaitable[bool]]


class Lists(Protocol):
    """The following read models' queries that the service hands on."""

    async def runs(self, query: ListRuns) -> Page[UUID]:
        """Ids of runs, newest first."""

    async def audit_log(
        self, *, after: int, limit: int, run_id: UUID | None, kind: str | None, sees: Sees
    ) -> Page[AuditRecord]:
        """Sealed events of the streams that `sees` says yes to."""


class Runs:
    """The service over one executor."""

    def __init__(
        self, executor: Executor, acceptor: Acceptor, lists: Lists, admission: Admission | None = None
    ) -> None:
        self._executor = executor
        self._acceptor = acceptor
        self._lists = lists
        self._admission = admission or Anywhere()
        self._scopes = RunScopes(executor.store, executor.desk.codec)

    async def scope(self, run_id: UUID) -> RunScope:
        """See `RunService.scope`."""
        return await self._scopes.of(run_id)

    async def start(self, command: StartRun) -> RunView:
        """See `RunService.start`."""
        await self._admission.check_start(command.workspace, command.project)
        definition = self._executor.definitions.find(command.kind, command.id, command.version)
        if definition is None:
            raise DefinitionNotFoundError
        if command.participant is not None:
            raise BadInputError("this release keeps no participants: leave `participant` out")
        ttl = checked_ttl(command.ttl_ms)
        labels = checked_labels(command.labels)
        check_input(definition, command.input)
        desk = self._executor.desk
        key = await self._executor.keys.fresh()
        session = Session(desk, key, uuid7(desk.world), definition)

        def begin(turn: Turn) -> None:
            turn.batch.reply = None if command.key is None else command.key.row
            decisions.begin(
                turn,
                ref_of(definition),
                command.input,
                ttl=ttl,
                labels=labels,
                actor=command.actor,
                workspace=command.workspace,
                project=command.project,
            )

        try:
            actor = await self._executor.begin(session, begin)
        except (ConflictError, StoreUnavailableError):
            await self._admission.check(command.workspace, command.project)  # the append doesn't say why
            raise
        if actor is None:
            return await self._wait_elsewhere(session.run_id, command.wait_s if command.wait else 0)
        if actor.settled:
            return _view_of(session)
        return await self._rested(session.run_id, actor, command.wait_s if command.wait else 0)

    async def check_tenant(self, run_id: UUID) -> None:
        """See `RunService.check_tenant`."""
        scope = await self._scopes.of(run_id)
        await self._admission.check(scope.workspace, scope.project)

    async def get(self, run_id: UUID, *, wait_s: float = 0.0) -> RunView:
        """See `RunService.get`."""
        if wait_s > 0:
            held = self._executor.find(run_id)
            if held is None:
                return await self._wait_elsewhere(run_id, wait_s)
            return await self._rested(run_id, held, wait_s)
        return await stored_view(self._executor, run_id)

    async def list(self, query: ListRuns) -> Page[RunView]:
        """See `RunService.list`."""
        page = await self._lists.runs(query)
        views = [await self.get(run_id) for run_id in page.data]
        return Page(data=tuple(views), next_cursor=page.next_cursor)

    async def resume(
        self,
        run_id: UUID,
        token_id: str,
        value: bytes,
        *,
        wait_s: float = 30.0,
        actor: str | None = None,
        key: UsedKey | None = None,
    ) -> RunView:
        """See `RunService.resume`."""
        wait = await self._open_wait(run_id, token_id, by=actor or APP_KEY, key=key)
        await wait.answer(value)
        held = self._executor.find(run_id)
        if held is None:
            return await self._wait_elsewhere(run_id, wait_s)
        return await self._rested(run_id, held, wait_s)

    async def check_resume(
        self, run_id: UUID, token_id: str, value: bytes, *, actor: str | None = None
    ) -> None:
        """See `RunService.check_resume`."""
        wait = await self._open_wait(run_id, token_id, by=actor or APP_KEY)
        await wait.check(value)

    async def cancel(self, run_id: UUID, *, actor: str | None = None, key: UsedKey | None = None) -> RunView:
        """See `RunService.cancel`. A key's row goes in with nothing but the end."""
        for _ in range(_TRIES):
            held = None if key is not None else self._executor.find(run_id)
            try:
                if held is not None:
                    await held.submit(lambda turn: decisions.cancel(turn, actor))
                    return await self.get(run_id)
                if await self._executor.cancel_stored(run_id, actor, None if key is None else key.row):
                    self._executor.hint(run_id)
                    return await self.get(run_id)
                if key is not None and await key.find() is not None:
                    raise IdempotencyKeyInFlightError
            except ConflictError:
                await self._refuse_ended(run_id)
        raise StoreUnavailableError("the run is written to by many at once; cancel it again")

    async def retry(self, run_id: UUID, *, actor: str | None = None, key: UsedKey | None = None) -> RunView:
        """See `RunService.retry`."""
        await self.check_tenant(run_id)
        for _ in range(_TRIES):
            try:
                await crash_loops.retry(self._executor, run_id, actor, None if key is None else key.row)
            except ConflictError:
                if key is not None and await key.find() is not None:
                    raise IdempotencyKeyInFlightError from None
                continue
            self._executor.hint(run_id)
            await self._executor.tell(run_id)
            return await self.get(run_id)
        raise StoreUnavailableError("the run is written to by many at once; retry it again")

    async def journal(
        self, run_id: UUID, *, after: int = 0, limit: int = 100, contents: bool = False
    ) -> Page[JournalEntry]:
        """See `RunService.journal`."""
        store = self._executor.store
        record = await store.read_record(run_id)
        if record is None:
            raise RunNotFoundError
        key = None
        if contents:
            try:
                key = await self._executor.keys.get(record.control.key_id)
            except ContentErasedError:
                key = None
        return await journal_page(store, self._executor.desk, record.control, key, after=after, limit=limit)

    async def open_link(self, token: str) -> Answerable:
        """See `RunService.open_link`."""
        return await self._acceptor.open_link(token)

    async def audit_log(
        self,
        caller: Caller,
        *,
        after: int = -1,
        limit: int = 100,
        run_id: UUID | None = None,
        kind: str | None = None,
    ) -> Page[AuditRecord]:
        """See `RunService.audit_log`."""

        async def sees(stream: UUID) -> bool:
            return await self._scopes.sees(caller, stream)

        return await self._lists.audit_log(after=after, limit=limit, run_id=run_id, kind=kind, sees=sees)

    async def problems(self) -> tuple[str, ...]:
        """See `RunService.problems`."""
        try:
            await self._executor.store.check_writable()
        except StoreUnavailableError as error:
            return (str(error),)
        return ()

    async def _open_wait(
        self, run_id: UUID, token_id: str, *, by: str, key: UsedKey | None = None
    ) -> Answerable:
        try:
            return await self._acceptor.open_wait(run_id, token_id, by=by, key=key)
        except WaitTokenNotFoundError:
            record = await self._executor.store.read_record(run_id)
            if record is None:
                raise RunNotFoundError from None
            if parse_token_id(token_id) is None and token_id.partition(":")[0] in (
                "timer",
                "approval",
                "signal",
            ):
                raise ResumeNotSupportedError from None
            raise

    async def _rested(self, run_id: UUID, actor: Actor, wait_s: float) -> RunView:
        """The run once it rests, as it was just written here; else as it is stored."""
        session = await actor.wait_settled(wait_s)
        return await self.get(run_id) if session is None else _view_of(session)

    async def _wait_elsewhere(self, run_id: UUID, wait_s: float) -> RunView:
        """Wait for a run that another process executes, looking at its row."""
        clock = asyncio.get_running_loop()
        end, pause = clock.time() + wait_s, _FIRST_LOOK_S
        view = await self.get(run_id)
        while view.status not in ENDED and view.status != "suspended" and clock.time() < end:
            await asyncio.sleep(min(pause, max(0.0, end - clock.time())))
            pause = min(pause * 1.5, _LONGEST_LOOK_S)
            view = await self.get(run_id)
        return view

    async def _refuse_ended(self, run_id: UUID) -> None:
        view = await self.get(run_id)
        if view.status in ENDED:
            raise RunAlreadyTerminalError(view.status)


def _view_of(session: Session) -> RunView:
    if session.state is None:
        raise RunNotFoundError
    return run_view_of(session.state, session.opened, session.ending, session.contents)
