"""API keys: made, listed, revoked, and looked up by each request that carries one.

A key is `abk_` and 32 random bytes in base64url. Its text is told once, to whoever made it; what is kept is
its SHA-256. Each change is an event of the workspace's stream, signed, with who made it.

**No key gives more than its maker has**: not another grant, project or definition, and no longer time.
"""

import base64
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, Protocol

from abeyance.engine.callers import ADMIN, DEFAULT_WORKSPACE, EXECUTE, Caller
from abeyance.engine.workspace_log import WorkspaceLog
from abeyance.errors import (
    ApiKeyNotFoundError,
    BadInputError,
    InvalidCursorError,
    Issue,
    PermissionDeniedError,
    StoreUnavailableError,
    WorkspaceNotFoundError,
)
from abeyance.journal.api_keys import ApiKeyRow, ApiKeyStore
from abeyance.journal.events import ApiKeyCreated, ApiKeyRevoked
from abeyance.projections.views import Page
from abeyance.world import World, from_micros, to_micros

PREFIX: Final = "abk_"
MAX_TTL: Final = timedelta(days=3650)
# As many as an event of at most 16 KiB holds.
MAX_EXECUTES: Final = 50
_SECRET_BYTES = 32
_KEY = re.compile(rb"abk_[A-Za-z0-9_-]{43}")
_ID = re.compile(r"key_[0-9a-v]{16}")
_TRIES = 20
# What all ids that a key names may take, in bytes: they are in one event.
_MOST_EXECUTES_BYTES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateApiKey:
    """Make a key. No `project`: for the workspace, or the project that the maker is bound to. No `executes`:
    for all definitions that the maker may execute. No `ttl`: as long as the maker's key.
    """

    name: str
    grants: frozenset[str]
    project: str | None = None
    executes: frozenset[str] | None = None
    ttl: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyView:
    """A key as it is shown, without its text. `created_by` is who made it, `None` where nobody was asked."""

    id: str
    name: str
    workspace: str
    project: str | None
    grants: tuple[str, ...]
    executes: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    created_by: str | None


class Projects(Protocol):
    """Which projects there are."""

    async def project(self, workspace: str, project: str) -> object:
        """Return if there is one of this name. Raises `ProjectNotFoundError`."""


class ApiKeys:
    """The keys of a deployment. `projects` says which there are; without it, any may be named."""

    def __init__(
        self, store: ApiKeyStore, log: WorkspaceLog, world: World, projects: Projects | None = None
    ) -> None:
        self._store = store
        self._log = log
        self._world = world
        self._projects = projects

    async def find(self, key: bytes) -> Caller | None:
        """Who holds the key, if it is good now; one read by primary key. Raises `StoreUnavailableError`."""
        if not _KEY.fullmatch(key):
            return None
        digest = sha256(key).digest()
        row = await self._store.find(digest)
        if row is None or not hmac.compare_digest(row.digest, digest) or row.revoked is not None:
            return None
        if row.expires is not None and row.expires <= to_micros(self._world.now()):
            return None
        return Caller(
            row.id,
            row.workspace,
            row.project,
            frozenset(row.grants),
            None if row.executes is None else frozenset(row.executes),
            expires=None if row.expires is None else from_micros(row.expires),
        )

    async def has_workspace(self, workspace: str) -> bool:
        """Whether there is a workspace of this name: `default`, or one that has a stream."""
        if workspace == DEFAULT_WORKSPACE:
            return True
        return (await self._log.read(workspace)).newest is not None

    async def create(self, caller: Caller, command: CreateApiKey) -> tuple[ApiKeyView, str]:
        """Make a key: how it is shown, and its text, which is told this once.

        Raises `PermissionDeniedError` for more than the caller has, `BadInputError`,
        `WorkspaceNotFoundError`, `ProjectNotFoundError`.
        """
        world = self._world
        secret = base64.urlsafe_b64encode(world.random_bytes(_SECRET_BYTES)).decode().rstrip("=")
        text = PREFIX + secret
        row = _new_row(caller, command, sha256(text.encode()).digest(), world)
        event = ApiKeyCreated(
            actor=caller.actor,
            executes=None if row.executes is None else list(row.executes),
            expires_at=None if row.expires is None else from_micros(row.expires),
            grants=[grant for grant in row.grants],  # type: ignore[misc] # checked by the model
            key=row.id,
            project=row.project,
        )
        if not await self.has_workspace(caller.workspace):
            raise WorkspaceNotFoundError
        if self._projects is not None and row.project is not None:
            await self._projects.project(caller.workspace, row.project)
        for _ in range(_TRIES):
            log = await self._log.read(caller.workspace)
            if await self._store.create(row, log.sealed([event])):
                return _view(row), text
        raise _busy()

    async def page(self, caller: Caller, *, limit: int = 50, cursor: str | None = None) -> Page[ApiKeyView]:
        """Keys of the caller's workspace and project, oldest first, with those that are no longer good.

        Raises `InvalidCursorError`.
        """
        if cursor is not None and not _ID.fullmatch(cursor):
            raise InvalidCursorError("the cursor wasn't made by this list")
        rows = await self._store.page(caller.workspace, caller.project, cursor or "", limit + 1)
        shown = tuple(map(_view, rows[:limit]))
        return Page(data=shown, next_cursor=shown[-1].id if len(rows) > limit else None)

    async def revoke(self, caller: Caller, key_id: str) -> ApiKeyView:
        """Revoke a key; the key after it. One that is revoked already stays as it is.

        Raises `ApiKeyNotFoundError`.
        """
        if not _ID.fullmatch(key_id):
            raise ApiKeyNotFoundError
        for _ in range(_TRIES):
            # The stream first: a row that changes after that is refused by the append.
            log = await self._log.read(caller.workspace)
            row = await self._store.get(caller.workspace, key_id)
            if row is None or not caller.sees(row.workspace, row.project):
                raise ApiKeyNotFoundError
            if row.revoked is not None:
                return _view(row)
            event = ApiKeyRevoked(actor=caller.actor, key=key_id)
            revoked = to_micros(self._world.now())
            if await self._store.revoke(key_id, revoked, log.sealed([event])):
                return _view(row._replace(revoked=revoked))
        raise _busy()


def _busy() -> StoreUnavailableError:
    return StoreUnavailableError("the workspace's stream is written to by many at once; send it again")


def _new_row(caller: Caller, command: CreateApiKey, digest: bytes, world: World) -> ApiKeyRow:
    """The row of a new key. Raises `BadInputError`, `PermissionDeniedError`."""
    now = world.now()
    if not command.grants:
        raise BadInputError("a key has at least one grant", (Issue("/grants", "minItems"),))
    if command.ttl is not None and not timedelta(0) < command.ttl <= MAX_TTL:
        raise BadInputError("ttlMs is from 1 ms to 3650 days", (Issue("/ttlMs", "maximum"),))
    if command.executes is not None and EXECUTE not in command.grants:
        raise BadInputError(
            "only the grant `execute` has a list of definitions", (Issue("/executes", "dependentRequired"),)
        )
    for grant in sorted(command.grants):
        caller.require(grant, project=command.project)
    executes = command.executes
    if EXECUTE in command.grants and executes is None:
        executes = caller.executes
    for definition in sorted(executes or ()):
        caller.require(EXECUTE, definition=definition)
    size = sum(len(each.encode()) for each in executes or ())
    if executes is not None and (len(executes) > MAX_EXECUTES or size > _MOST_EXECUTES_BYTES):
        raise BadInputError(
            f"a key names at most {MAX_EXECUTES} definitions", (Issue("/executes", "maxItems"),)
        )
    expires = caller.expires if command.ttl is None else now + command.ttl
    if caller.expires is not None and expires is not None and expires > caller.expires:
        raise PermissionDeniedError(ADMIN, "beyond the time at which the key itself expires")
    return ApiKeyRow(
        id=_new_id(now, world.random_bytes),
        digest=digest,
        name=command.name,
        workspace=caller.workspace,
        project=command.project or caller.project,
        grants=tuple(sorted(command.grants)),
        executes=None if executes is None else tuple(sorted(executes)),
        created=to_micros(now),
        expires=None if expires is None else to_micros(expires),
        revoked=None,
        actor=caller.actor,
    )


def _new_id(now: datetime, random_bytes: Callable[[int], bytes]) -> str:
    """48 bits of milliseconds and 32 random ones, in an alphabet that sorts as the bytes do (RFC 4648, 7)."""
    raw = (to_micros(now) // 1000).to_bytes(6) + random_bytes(4)
    return "key_" + base64.b32hexencode(raw).decode().lower()


def _view(row: ApiKeyRow) -> ApiKeyView:
    return ApiKeyView(
        id=row.id,
        name=row.name,
        workspace=row.workspace,
        project=row.project,
        grants=row.grants,
        executes=row.executes,
        created_at=from_micros(row.created),
        expires_at=None if row.expires is None else from_micros(row.expires),
        revoked_at=None if row.revoked is None else from_micros(row.revoked),
        created_by=row.actor,
    )
