"""What was written: a run's journal, and the audit log over the journal of all."""

from uuid import UUID

from falcon.asgi import Request, Response

from abeyance.engine.service import RunService
from abeyance.http import render
from abeyance.http.resources.runs import run_id
from abeyance.http.schemas import AuditQuery, JournalQuery, read_query


class RunJournal:
    """The events of one run."""

    def __init__(self, runs: RunService) -> None:
        self._runs = runs

    async def on_get(self, req: Request, resp: Response, id: str) -> None:
        """A page of the run's events, oldest first."""
        found = run_id(id)
        query = read_query(JournalQuery, req.scope["query_string"])
        page = await self._runs.journal(found, after=query.after, limit=query.limit, contents=query.content)
        resp.data = render.page(page, render.journal_entry)

    on_head = on_get


class AuditRecords:
    """The sealed events of all runs, in the journal's order."""

    def __init__(self, runs: RunService) -> None:
        self._runs = runs

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page of the audit log, oldest first."""
        query = read_query(AuditQuery, req.scope["query_string"])
        page = await self._runs.audit_log(
            req.context.caller,
            after=-1 if query.after is None else query.after,
            limit=query.limit,
            run_id=UUID(query.run_id) if query.run_id else None,
            kind=query.kind,
        )
        resp.data = render.page(page, render.audit_record)

    on_head = on_get
