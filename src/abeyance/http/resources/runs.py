"""`/v1/runs`: start, list, get, resume, cancel."""

import re
from uuid import UUID

from falcon.asgi import Request, Response

from abeyance.engine.service import ListRuns, RunService, StartRun
from abeyance.errors import BadInputError, RunNotFoundError, UnknownFieldError
from abeyance.http import render
from abeyance.http.body import read_json
from abeyance.http.resources.waiting import WaitingRequests
from abeyance.http.schemas import (
    CheckQuery,
    NoBody,
    ResumeBody,
    RunQuery,
    RunsQuery,
    StartRunBody,
    read_body,
    read_query,
)

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_AT_REST = frozenset({"suspended", "completed", "failed", "cancelled"})


def run_id(text: str) -> UUID:
    """The run's id in a path; what isn't one is no run's. Raises `RunNotFoundError`."""
    if not _UUID.fullmatch(text):
        raise RunNotFoundError
    return UUID(text)


class Runs:
    """The runs: start one, list them."""

    def __init__(self, runs: RunService, waiting: WaitingRequests) -> None:
        self._runs = runs
        self._waiting = waiting

    async def on_post(self, req: Request, resp: Response) -> None:
        """Start a run: 201 once it has ended or waits, 202 if it goes on."""
        body = read_body(StartRunBody, await read_json(req))
        actor = req.context.actor
        if body.wait:
            run = await self._waiting.wait(
                lambda wait_s: self._runs.start(_command(body, actor, wait=True, wait_s=wait_s))
            )
        else:
            run = await self._waiting.finish(self._runs.start(_command(body, actor, wait=False, wait_s=0.0)))
        resp.status = 201 if body.wait and run.status in _AT_REST else 202
        resp.set_header("Location", f"/v1/runs/{run.id}")
        resp.data = render.run(run)

    async def on_get(self, req: Request, resp: Response) -> None:
        """List runs, newest first."""
        query = read_query(RunsQuery, req.scope["query_string"])
        label = query.label.partition("=") if query.label else None
        page = await self._runs.list(
            ListRuns(
                status=query.status,
                definition=query.definition,
                label=(label[0], label[2]) if label else None,
                limit=query.limit,
                cursor=query.cursor,
            )
        )
        resp.data = render.page(page, render.run)

    on_head = on_get


def _command(body: StartRunBody, actor: str | None, *, wait: bool, wait_s: float) -> StartRun:
    kind, name, version = body.definition()
    return StartRun(
        kind=kind,
        id=name,
        version=version,
        input=body.input,
        wait=wait,
        wait_s=wait_s,
        ttl_ms=body.ttl_ms,
        participant=body.participant,
        project=body.project or "default",
        labels=body.labels or {},
        actor=actor,
    )


class Run:
    """One run."""

    def __init__(self, runs: RunService, waiting: WaitingRequests) -> None:
        self._runs = runs
        self._waiting = waiting

    async def on_get(self, req: Request, resp: Response, id: str) -> None:
        """The run as it is now, or with `wait=true` once it rests."""
        found = run_id(id)
        if read_query(RunQuery, req.scope["query_string"]).wait:
            run = await self._waiting.wait(lambda wait_s: self._runs.get(found, wait_s=wait_s))
        else:
            run = await self._runs.get(found)
        resp.data = render.run(run)

    on_head = on_get


class Resume:
    """Answers a wait with the app's key."""

    def __init__(self, runs: RunService, waiting: WaitingRequests) -> None:
        self._runs = runs
        self._waiting = waiting

    async def on_post(self, req: Request, resp: Response, id: str) -> None:
        """Take the answer; the run resumes in this request, and the reply is the run after it. With
        `?check=true` take nothing, and say whether it would be taken.
        """
        found = run_id(id)
        try:
            body = read_body(ResumeBody, await read_json(req))
            check = read_query(CheckQuery, req.scope["query_string"]).check
        except UnknownFieldError as error:
            raise BadInputError(error.reason, error.issues) from None
        if check:
            await self._waiting.finish(
                self._runs.check_resume(found, body.waitpoint_id, body.value, actor=req.context.actor)
            )
            resp.data = render.ACCEPTABLE
            return
        run = await self._waiting.wait(
            lambda wait_s: self._runs.resume(
                found, body.waitpoint_id, body.value, wait_s=wait_s, actor=req.context.actor
            )
        )
        resp.data = render.run(run)


class Cancel:
    """Cancels a run and everything it waits for."""

    def __init__(self, runs: RunService, waiting: WaitingRequests) -> None:
        self._runs = runs
        self._waiting = waiting

    async def on_post(self, req: Request, resp: Response, id: str) -> None:
        """Cancel the run; the reply is the run after it."""
        found = run_id(id)
        read_body(NoBody, await read_json(req))
        run = await self._waiting.finish(self._runs.cancel(found, actor=req.context.actor))
        resp.data = render.run(run)
