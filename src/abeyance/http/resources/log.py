"""`/v1/audit/log`, `/v1/audit/exports`: the log as C2SP tlog-tiles v0.1.0 serves it, proofs, exports."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

from falcon.asgi import Request, Response

from abeyance.audit.export import Filter
from abeyance.errors import BadInputError, Issue
from abeyance.http.body import read_json
from abeyance.http.log_schemas import ExportBody
from abeyance.http.schemas import read_body

TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
LINES = "application/jsonl"


class LogService(Protocol):
    """What the log answers; see `abeyance.audit.service.AuditService`."""

    async def checkpoint(self) -> str:
        """The newest checkpoint. Raises `NotFoundError`."""

    async def tile(self, path: str) -> bytes:
        """A tile. Raises `NotFoundError`."""

    async def proof(self, record: str) -> str:
        """A record's proof, by index or hash. Raises `NotFoundError`."""

    async def export(self, wanted: Filter, actor: str | None) -> AsyncIterator[bytes]:
        """A bundle in pieces, once it is recorded that it is handed out."""


def log_routes(audit: LogService) -> Mapping[str, object]:
    """The routes of the log."""
    return {
        "/v1/audit/log/checkpoint": LogCheckpoint(audit),
        "/v1/audit/log/tile/{path:path}": LogTile(audit),
        "/v1/audit/records/{record}/proof": RecordProof(audit),
        "/v1/audit/exports": Exports(audit),
    }


class LogCheckpoint:
    """The newest checkpoint."""

    def __init__(self, audit: LogService) -> None:
        self._audit = audit

    async def on_get(self, _: Request, resp: Response) -> None:
        """The signed note."""
        resp.content_type = TEXT
        resp.data = (await self._audit.checkpoint()).encode()

    on_head = on_get


class LogTile:
    """A tile of hashes or of entries."""

    def __init__(self, audit: LogService) -> None:
        self._audit = audit

    async def on_get(self, _: Request, resp: Response, path: str) -> None:
        """The tile's bytes. They never change, but whoever may read them may not for ever: no cache."""
        resp.content_type = BYTES
        resp.data = await self._audit.tile(path)

    on_head = on_get


class RecordProof:
    """That one record is in the log."""

    def __init__(self, audit: LogService) -> None:
        self._audit = audit

    async def on_get(self, _: Request, resp: Response, record: str) -> None:
        """The proof, as C2SP tlog-proof v1 writes it."""
        resp.content_type = TEXT
        resp.data = (await self._audit.proof(record)).encode()

    on_head = on_get


class Exports:
    """Exports of the log."""

    def __init__(self, audit: LogService) -> None:
        self._audit = audit

    async def on_post(self, req: Request, resp: Response) -> None:
        """Record the export, then stream it. An answer that is cut off has no end line."""
        body = read_body(ExportBody, await read_json(req))
        wanted = Filter(
            run=UUID(body.run) if body.run else None,
            since=_moment(body.since, "/since"),
            until=_moment(body.until, "/until"),
        )
        pieces = await self._audit.export(wanted, req.context.actor)
        resp.content_type = LINES
        resp.set_header("Content-Disposition", 'attachment; filename="log.abeyance.jsonl"')
        resp.stream = pieces


def _moment(text: str | None, path: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadInputError("a time is RFC 3339 text with an offset", (Issue(path, "format"),))
    return moment
