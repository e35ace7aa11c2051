"""`/v1/keys`: API keys are made, listed and revoked."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from falcon.asgi import Request, Response

from abeyance.engine.api_keys import ApiKeyView, CreateApiKey
from abeyance.engine.callers import Caller
from abeyance.engine.replies import UsedKey
from abeyance.http.body import read_json
from abeyance.http.idempotency import Idempotency, Rendered
from abeyance.http.keys_schemas import CreateKeyBody, KeysQuery
from abeyance.http.render import dump, format_time, page
from abeyance.http.schemas import NoBody, read_body, read_query
from abeyance.projections.views import Page


class KeyService(Protocol):
    """See `abeyance.engine.api_keys.ApiKeys`."""

    async def create(self, caller: Caller, command: CreateApiKey) -> tuple[ApiKeyView, str]:
        """Make a key; its text is told this once."""

    async def page(self, caller: Caller, *, limit: int = 50, cursor: str | None = None) -> Page[ApiKeyView]:
        """A page of keys, oldest first."""

    async def revoke(self, caller: Caller, key_id: str) -> ApiKeyView:
        """Revoke a key."""


def key_routes(keys: KeyService, idempotency: Idempotency) -> Mapping[str, object]:
    """The routes of API keys."""
    return {"/v1/keys": ApiKeyList(keys, idempotency), "/v1/keys/{id}": OneApiKey(keys, idempotency)}


def render_key(view: ApiKeyView, text: str | None = None) -> bytes:
    """A key as it is shown; with its text where it was just made."""
    times = {"createdAt": view.created_at, "expiresAt": view.expires_at, "revokedAt": view.revoked_at}
    shown: dict[str, object] = {
        "id": view.id,
        "name": view.name,
        "workspaceId": view.workspace,
        "projectId": view.project,
        "grants": list(view.grants),
        "executes": None if view.executes is None else list(view.executes),
        **{name: None if moment is None else format_time(moment) for name, moment in times.items()},
        "createdBy": view.created_by,
        "key": text,
    }
    return dump({name: value for name, value in shown.items() if value is not None})


class ApiKeyList:
    """The keys: make one, list them."""

    def __init__(self, keys: KeyService, idempotency: Idempotency) -> None:
        self._keys = keys
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response) -> None:
        """Make a key. The reply is the one place where its text is shown."""
        sent = await read_json(req)
        body = read_body(CreateKeyBody, sent)
        command = CreateApiKey(
            name=body.name,
            grants=frozenset(body.grants),
            project=body.project,
            executes=None if body.executes is None else frozenset(body.executes),
            ttl=None if body.ttl_ms is None else timedelta(milliseconds=body.ttl_ms),
        )

        async def first(_: UsedKey | None) -> Rendered:
            view, text = await self._keys.create(req.context.caller, command)
            return Rendered(status=201, body=render_key(view, text), secret=True)

        await self._idempotency.answer_reserved(req, resp, sent, first)

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page of keys, oldest first, those included that are no longer good."""
        query = read_query(KeysQuery, req.scope["query_string"])
        found = await self._keys.page(req.context.caller, limit=query.limit, cursor=query.cursor)
        resp.data = page(found, render_key)

    on_head = on_get


class OneApiKey:
    """One key."""

    def __init__(self, keys: KeyService, idempotency: Idempotency) -> None:
        self._keys = keys
        self._idempotency = idempotency

    async def on_delete(self, req: Request, resp: Response, id: str) -> None:
        """Revoke it: it opens nothing from the next request on. The reply is the key after it."""
        sent = await read_json(req)
        read_body(NoBody, sent)

        async def first(_: UsedKey | None) -> Rendered:
            return Rendered(status=200, body=render_key(await self._keys.revoke(req.context.caller, id)))

        await self._idempotency.answer_reserved(req, resp, sent, first)
