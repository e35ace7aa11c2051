"""What the outside may ask of runs: the port that HTTP, and through it the CLI and the client, speak.

Refusals are `RefusedError`s, a store that can't be used is `StoreUnavailableError`; in both cases nothing was
taken. Inputs and answers come in as canonical JSON (`abeyance.journal.canonical.canonicalise`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from abeyance.engine.callers import DEFAULT_WORKSPACE, Caller
from abeyance.engine.questions import Question
from abeyance.engine.replies import UsedKey
from abeyance.engine.run_scopes import RunScope
from abeyance.projections.views import AuditRecord, JournalEntry, Page, RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Start a run of `kind` (`flow` or `script`) `id`, at `version` or whatever version is loaded.

    `wait`: return when it ends or suspends, at most after `wait_s` seconds; else at once. `ttl_ms` bounds
    every wait of the run (default 30 days, at most 365). `key` is the request's idempotency key: its row goes
    in with the run's first events, and a run that it keeps from being stored is refused.
    """

    kind: str
    id: str
    input: bytes
    version: str | None = None
    wait: bool = True
    wait_s: float = 30.0
    ttl_ms: int | None = None
    participant: str | None = None
    workspace: str = DEFAULT_WORKSPACE
    project: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    actor: str | None = None
    key: UsedKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRuns:
    """Which runs to list, newest first. All filters must hold. No `project` is every one of the workspace."""

    workspace: str = DEFAULT_WORKSPACE
    project: str | None = None
    status: str | None = None
    definition: str | None = None
    label: tuple[str, str] | None = None
    limit: int = 50
    cursor: str | None = None


class OpenLink(Protocol):
    """A link that was found: its wait may be answered, or say why not."""

    @property
    def run_id(self) -> UUID:
        """The run that waits, or will. Never shown to who has the link."""

    @property
    def wait_id(self) -> str:
        """The id of the wait token."""

    async def answer(self, value: bytes) -> None:
        """Take `value` (canonical JSON) as the wait's answer. Returns once it is on disk.

        The same answer again returns again. Raises `AnswerInvalidError`, `WaitTokenClosedError`,
        `StoreUnavailableError`.
        """

    async def confirm(self) -> None:
        """Return if the link still works. Whatever its request is refused with, this comes first: a link that
        was killed answers as an unknown one. Raises `WaitTokenNotFoundError`, `StoreUnavailableError`.
        """

    async def check(self, value: bytes) -> None:
        """Return if `answer` would take `value` now, and take nothing. Raises what `answer` would."""

    async def ask(self) -> Question:
        """What the wait asks for. Raises `StoreUnavailableError`."""


class RunService(Protocol):
    """Commands and queries over runs."""

    async def scope(self, run_id: UUID) -> RunScope:
        """Where the run belongs. Raises `RunNotFoundError`."""

    async def start(self, command: StartRun) -> RunView:
        """Start a run. Raises `DefinitionNotFoundError`, `InputInvalidError`, `BadInputError` (labels,
        ttl)."""

    async def check_tenant(self, run_id: UUID) -> None:
        """Return if the run's workspace and project let it go on. Raises `RunNotFoundError`,
        `TenantSuspendedError`, `TenantClosingError`, `ProjectSuspendedError`.
        """

    async def get(self, run_id: UUID, *, wait_s: float = 0.0) -> RunView:
        """The run now, or once it waits or has ended, at most `wait_s` seconds later.

        Raises `RunNotFoundError`.
        """

    async def list(self, query: ListRuns) -> Page[RunView]:
        """A page of runs, newest first, as the following read model has them."""

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
        """Answer a wait with the app's key; the run after it, at most `wait_s` seconds later. `actor` is who
        answered, as the event names them. The row of the request's idempotency `key` goes in with the answer.

        Raises `RunNotFoundError`, `WaitTokenNotFoundError`, `WaitTokenClosedError`, `AnswerInvalidError`,
        `ResumeNotSupportedError`.
        """

    async def check_resume(
        self, run_id: UUID, token_id: str, value: bytes, *, actor: str | None = None
    ) -> None:
        """Return if `resume` would take the answer now, and take nothing. Raises what `resume` would."""

    async def cancel(self, run_id: UUID, *, actor: str | None = None, key: UsedKey | None = None) -> RunView:
        """Cancel the run and everything it waits for; the row of the request's idempotency `key` goes in with
        that. Raises `RunAlreadyTerminalError`.
        """

    async def retry(self, run_id: UUID, *, actor: str | None = None, key: UsedKey | None = None) -> RunView:
        """Let a parked run be gone on with; the run after it. The row of the request's idempotency `key` goes
        in with the event, if there is one.

        Raises `RunNotFoundError`, `RunAlreadyTerminalError`, `RunNotParkedError`.
        """

    async def journal(
        self, run_id: UUID, *, after: int = 0, limit: int = 100, contents: bool = False
    ) -> Page[JournalEntry]:
        """The run's events from sequence `after + 1` on."""

    async def open_link(self, token: str) -> OpenLink:
        """Find the wait that a link answers. Raises `WaitTokenNotFoundError`, the same for wrong and
        unknown."""

    async def audit_log(
        self,
        caller: Caller,
        *,
        after: int = -1,
        limit: int = 100,
        run_id: UUID | None = None,
        kind: str | None = None,
    ) -> Page[AuditRecord]:
        """Sealed events after index `after`, in the journal's order, that are there for `caller`: those of
        the workspace's runs and its own, and with the deployment's key the deployment's.
        """

    async def problems(self) -> tuple[str, ...]:
        """Why this process isn't ready to serve; empty if it is. Reads the store."""
