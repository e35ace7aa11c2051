"""`/v1/runs`: start, list, get, resume, cancel."""

import re
from uuid import UUID

from falcon.asgi import Request, Response

from abeyance.engine.callers import DEFAULT_PROJECT, EXECUTE, WRITE, Caller
from abeyance.engine.replies import UsedKey
from abeyance.engine.service import ListRuns, RunService, StartRun
from abeyance.errors import BadInputError, RefusedError, RunNotFoundError, UnknownFieldError
from abeyance.http import render
from abeyance.http.body import read_json
from abeyance.http.idempotency import Idempotency, Rendered
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
from abeyance.projections.views import RunView

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_AT_REST = frozenset({"suspended", "completed", "failed", "cancelled"})


def run_id(text: str) -> UUID:
    """The run's id in a path; what isn't one is no run's. Raises `RunNotFoundError`."""
    if not _UUID.fullmatch(text):
        raise RunNotFoundError
    return UUID(text)


class Runs:
    """The runs: start one, list them."""

    def __init__(self, runs: RunService, waiting: WaitingRequests, idempotency: Idempotency) -> None:
        self._runs = runs
        self._waiting = waiting
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response) -> None:
        """Start a run: 201 once it has ended or waits, 202 if it goes on."""
        sent = await read_json(req)
        body = read_body(StartRunBody, sent)
        caller: Caller = req.context.caller
        project = body.project or caller.project or DEFAULT_PROJECT
        caller.require(WRITE, project=project)
        caller.require(EXECUTE, project=project, definition=body.definition()[1])

        async def first(key: UsedKey | None) -> Rendered:
            if not body.wait:
                return _started(await self._runs.start(_command(body, caller, key, wait_s=0.0)), body)
            run = await self._waiting.within(
                lambda wait_s: self._runs.start(_command(body, caller, key, wait_s=wait_s))
            )
            return _started(run, body)

        async def again(started: UUID) -> Rendered:
            if not body.wait:
                return _started(await self._runs.get(started), body)
            run = await self._waiting.within(lambda wait_s: self._runs.get(started, wait_s=wait_s))
            return _started(run, body)

        await self._idempotency.answer(req, resp, sent, first, again=again)

    async def on_get(self, req: Request, resp: Response) -> None:
        """List runs, newest first."""
        caller: Caller = req.context.caller
        query = read_query(RunsQuery, req.scope["query_string"])
        label = query.label.partition("=") if query.label else None
        page = await self._runs.list(
            ListRuns(
                workspace=caller.workspace,
                project=caller.project,
                status=query.status,
                definition=query.definition,
                label=(label[0], label[2]) if label else None,
                limit=query.limit,
                cursor=query.cursor,
            )
        )
        resp.data = render.page(page, render.run)

    on_head = on_get


def _started(run: RunView, body: StartRunBody) -> Rendered:
    return Rendered(
        status=201 if body.wait and run.status in _AT_REST else 202,
        body=render.run(run),
        location=f"/v1/runs/{run.id}",
        run_id=run.id,
    )


def _shown(run: RunView) -> Rendered:
    return Rendered(status=200, body=render.run(run), run_id=run.id)


def _command(body: StartRunBody, caller: Caller, key: UsedKey | None, *, wait_s: float) -> StartRun:
    kind, name, version = body.definition()
    return StartRun(
        kind=kind,
        id=name,
        version=version,
        input=body.input,
        wait=body.wait,
        wait_s=wait_s,
        ttl_ms=body.ttl_ms,
        participant=body.participant,
        workspace=caller.workspace,
        project=body.project or caller.project or DEFAULT_PROJECT,
        labels=body.labels or {},
        actor=caller.actor,
        key=key,
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

    def __init__(self, runs: RunService, waiting: WaitingRequests, idempotency: Idempotency) -> None:
        self._runs = runs
        self._waiting = waiting
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response, id: str) -> None:
        """Take the answer; the run resumes in this request, and the reply is the run after it. With
        `?check=true` take nothing, and say whether it would be taken.
        """
        found = run_id(id)
        try:
            sent = await read_json(req)
            body = read_body(ResumeBody, sent)
            check = read_query(CheckQuery, req.scope["query_string"]).check
        except RefusedError as error:
            await self._runs.check_tenant(found)  # its refusals come first
            if isinstance(error, UnknownFieldError):
                raise BadInputError(error.reason, error.issues) from None
            raise
        if check:
            await self._waiting.finish(
                self._runs.check_resume(found, body.waitpoint_id, body.value, actor=req.context.actor)
            )
            resp.data = render.ACCEPTABLE
            return

        async def first(key: UsedKey | None) -> Rendered:
            wait, value, actor = body.waitpoint_id, body.value, req.context.actor
            run = await self._waiting.within(
                lambda wait_s: self._runs.resume(found, wait, value, wait_s=wait_s, actor=actor, key=key)
            )
            return _shown(run)

        async def again(resumed: UUID) -> Rendered:
            return _shown(await self._waiting.within(lambda wait_s: self._runs.get(resumed, wait_s=wait_s)))

        await self._idempotency.answer(req, resp, sent, first, again=again)


class Retry:
    """Lets a parked run be gone on with."""

    def __init__(self, runs: RunService, idempotency: Idempotency) -> None:
        self._runs = runs
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response, id: str) -> None:
        """Try the run again; the reply is the run after it."""
        found = run_id(id)
        sent = await read_json(req)
        read_body(NoBody, sent)

        async def first(key: UsedKey | None) -> Rendered:
            return _shown(await self._runs.retry(found, actor=req.context.actor, key=key))

        async def again(retried: UUID) -> Rendered:
            return _shown(await self._runs.get(retried))

        await self._idempotency.answer(req, resp, sent, first, again=again)


class Cancel:
    """Cancels a run and everything it waits for."""

    def __init__(self, runs: RunService, idempotency: Idempotency) -> None:
        self._runs = runs
        self._idempotency = idempotency

    async def on_post(self, req: Request, resp: Response, id: str) -> None:
        """Cancel the run; the reply is the run after it."""
        found = run_id(id)
        sent = await read_json(req)
        read_body(NoBody, sent)

        async def first(key: UsedKey | None) -> Rendered:
            return _shown(await self._runs.cancel(found, actor=req.context.actor, key=key))

        async def again(cancelled: UUID) -> Rendered:
            return _shown(await self._runs.get(cancelled))

        await self._idempotency.answer(req, resp, sent, first, again=again)
