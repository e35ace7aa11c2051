"""Requests with idempotency keys to the API of one process, over a real engine."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import falcon.testing

from abeyance import flow, step, tool
from abeyance.engine.callers import DEFAULT_WORKSPACE, Caller
from abeyance.engine.keyring import KeyRing
from abeyance.engine.replies import Replies, open_replies
from abeyance.engine.service import RunService
from abeyance.errors import StoreUnavailableError
from abeyance.http.app import HttpServices, create_app
from abeyance.journal.postgres.replies import PostgresReplies
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.replies import ReplyStore
from abeyance.journal.sqlite.replies import SQLiteReplies
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore, ReplyRow
from tests.support.carrier import Loose
from tests.support.engine import Deployment, EngineProcess


def rows_of(store: JournalStore) -> ReplyStore:
    """The rows of idempotency keys in a journal."""
    if isinstance(store, SQLiteJournalStore):
        return SQLiteReplies(store)
    assert isinstance(store, PostgresJournalStore)
    return PostgresReplies(store)


class Forgetful:
    """Rows to which no reply is ever added: each process dies after the effect, before its reply."""

    def __init__(self, rows: ReplyStore) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def keep(self, row: ReplyRow, run_id: UUID | None, reply: bytes) -> bool:
        """Not any more."""
        raise StoreUnavailableError


async def replies_of(
    deployment: Deployment, wrap: Callable[[ReplyStore], Any] = lambda rows: rows
) -> Replies:
    """The deployment's idempotency keys, as a process has them."""
    keys = KeyRing(deployment.keys)
    return await open_replies(wrap(rows_of(deployment.store)), deployment.keys, keys, deployment.world)


class Holders:
    """Whoever sends a key is its holder."""

    async def check(self, headers: Sequence[tuple[bytes, bytes]]) -> Caller:
        """The key itself; before a slash, the workspace."""
        workspace, _, actor = dict(headers)[b"authorization"].decode().rpartition("/")
        return Caller(actor=actor, workspace=workspace or DEFAULT_WORKSPACE, everywhere=True)


@dataclass(slots=True)
class Api:
    """The API of one process."""

    conductor: falcon.testing.ASGIConductor

    async def post(
        self, path: str, body: bytes = b"", key: str | None = None, holder: str = "app", query: str = ""
    ) -> falcon.testing.Result:
        """One request."""
        headers = {"Authorization": holder}
        headers |= {} if key is None else {"Idempotency-Key": key}
        headers |= {"Content-Type": "application/json"} if body else {}
        return await self.conductor.simulate_post(path, body=body, headers=headers, query_string=query)

    async def get(self, path: str) -> falcon.testing.Result:
        """One request."""
        return await self.conductor.simulate_get(path, headers={"Authorization": "app"})


@asynccontextmanager
async def api_of(
    deployment: Deployment,
    process: EngineProcess,
    *,
    wrap: Callable[[ReplyStore], Any] = lambda rows: rows,
    **more: Any,
) -> AsyncIterator[Api]:
    """The API of `process`."""
    runs: RunService = process.runs
    services = HttpServices(
        runs=runs,
        auth=Holders(),
        world=deployment.world,
        replies=await replies_of(deployment, wrap),
        **more,
    )
    async with falcon.testing.ASGIConductor(create_app(services)) as conductor:
        yield Api(conductor)


def seen(result: falcon.testing.Result) -> tuple[int, bytes, str | None, str | None]:
    """What of a reply must be the same when it is replayed, and whether it was."""
    headers = result.headers
    return result.status_code, result.content, headers.get("location"), headers.get("idempotency-replayed")


def code(result: falcon.testing.Result) -> tuple[int, str]:
    """A refusal's status and code."""
    return result.status_code, result.json["error"]["code"]


@tool(id="t.echo")
def echo(given: Loose) -> Loose:
    """Says what it is told."""
    return given


ECHO = flow("t.echo", input=Loose, steps=[step("echo", echo)])


async def count_runs(deployment: Deployment) -> int:
    """All runs that there are."""
    async with deployment.store.snapshot() as snapshot:
        streams = await snapshot.streams(None, 1_000)
        return len(await snapshot.controls(streams))
