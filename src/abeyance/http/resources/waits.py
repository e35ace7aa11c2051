"""`/v1/waits` and `/v1/runs/{id}/waits/{wait}`: what runs wait for, and changes of wait tokens.

A wait is named by its run and its id. An id holds colons, which stand in a path as they are or as `%3A`.
"""

from datetime import datetime
from uuid import UUID

from falcon.asgi import Request, Response

from abeyance.engine.replies import UsedKey
from abeyance.engine.waits import ListWaits, ShownWait, WaitService
from abeyance.errors import RunNotFoundError
from abeyance.http import waits_render as render
from abeyance.http.body import read_json
from abeyance.http.idempotency import Idempotency, Rendered
from abeyance.http.render import page
from abeyance.http.resources.runs import run_id
from abeyance.http.schemas import NoBody, read_body, read_query
from abeyance.http.waits_schemas import ExtendBody, WaitsQuery
from abeyance.projections.views import Page
from abeyance.projections.wait_view import WaitView


class NoWaits:
    """A `WaitService` that knows no run."""

    async def list(self, query: ListWaits) -> Page[WaitView]:
        """See `WaitService.list`."""
        return Page(data=(), next_cursor=None)

    async def get(self, run_id: UUID, wait_id: str) -> WaitView:
        """See `WaitService.get`."""
        raise RunNotFoundError

    async def show(self, run_id: UUID, wait_id: str) -> ShownWait:
        """See `WaitService.show`."""
        raise RunNotFoundError

    async def extend(
        self,
        run_id: UUID,
        wait_id: str,
        until: datetime,
        *,
        actor: str | None = None,
        key: UsedKey | None = None,
    ) -> WaitView:
        """See `WaitService.extend`."""
        raise RunNotFoundError

    async def rotate(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> tuple[WaitView, str]:
        """See `WaitService.rotate`."""
        raise RunNotFoundError

    async def revoke(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> WaitView:
        """See `WaitService.revoke`."""
        raise RunNotFoundError


class WaitsList:
    """All open waits."""

    def __init__(self, waits: WaitService) -> None:
        self._waits = waits

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page of open waits, oldest first."""
        query, caller = read_query(WaitsQuery, req.scope["query_string"]), req.context.caller
        found = await self._waits.list(
            ListWaits(
                workspace=caller.workspace,
                project=caller.project,
                kind=query.kind,
                name=query.name,
                tool=query.tool,
                run_id=UUID(query.run) if query.run else None,
                limit=query.limit,
                cursor=query.cursor,
            )
        )
        resp.data = page(found, render.wait)

    on_head = on_get


class Wait:
    """One wait."""

    def __init__(self, waits: WaitService) -> None:
        self._waits = waits

    async def on_get(self, req: Request, resp: Response, id: str, wait: str) -> None:
        """The wait, open or closed, with the newest attempts at its links."""
        resp.data = render.shown(await self._waits.show(run_id(id), wait))

    on_head = on_get


class ExtendWait:
    """Moves a wait's deadline."""

    def __init__(self, waits: WaitService, idempotency: Idempotency) -> None:
        self._waits = waits
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response, id: str, wait: str) -> None:
        """Move the deadline; the reply is the wait after it."""
        found = run_id(id)
        sent = await read_json(req)
        until, actor = read_body(ExtendBody, sent).until, req.context.actor

        async def first(key: UsedKey | None) -> Rendered:
            return _rendered(await self._waits.extend(found, wait, until, actor=actor, key=key))

        async def again(run: UUID) -> Rendered:
            return _rendered(await self._waits.get(run, wait))

        await self._idempotency.answer(req, resp, sent, first, again=again)


class RotateLink:
    """Replaces the links of a wait."""

    def __init__(self, waits: WaitService, idempotency: Idempotency) -> None:
        self._waits = waits
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response, id: str, wait: str) -> None:
        """Make a new link and kill the old ones. The reply is the one place where the link is shown."""
        found = run_id(id)
        sent = await read_json(req)
        read_body(NoBody, sent)

        async def first(key: UsedKey | None) -> Rendered:
            view, link = await self._waits.rotate(found, wait, actor=req.context.actor, key=key)
            return Rendered(status=200, body=render.rotated(view, link), run_id=view.run_id, secret=True)

        await self._idempotency.answer(req, resp, sent, first)


class RevokeLinks:
    """Kills the links of a wait."""

    def __init__(self, waits: WaitService, idempotency: Idempotency) -> None:
        self._waits = waits
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response, id: str, wait: str) -> None:
        """Kill all links; the wait stays open, and the reply is the wait after it."""
        found = run_id(id)
        sent = await read_json(req)
        read_body(NoBody, sent)

        async def first(key: UsedKey | None) -> Rendered:
            return _rendered(await self._waits.revoke(found, wait, actor=req.context.actor, key=key))

        async def again(run: UUID) -> Rendered:
            return _rendered(await self._waits.get(run, wait))

        await self._idempotency.answer(req, resp, sent, first, again=again)


def _rendered(view: WaitView) -> Rendered:
    return Rendered(status=200, body=render.wait(view), run_id=view.run_id)
