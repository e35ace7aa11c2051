"""A falcon application for tests over sockets: it takes bodies as the API does and tells what it took.

* `POST /take` answers with the canonical body and remembers it; `GET /taken` lists what was taken so far.
* `POST /slow?s=N` does its work for N seconds behind a shield, `POST /bare?s=N` without one.
* `GET /notes` lists what happened: `started`, `stopped`, `slow finished`, `slow cancelled`, ….
  They are also appended to the file that `BODY_APP_NOTES` names, so that they outlive the process.
"""

import asyncio
import json
import os
from typing import Any

import falcon.asgi
from falcon.asgi import Request, Response

from abeyance.errors import RefusedError
from abeyance.http.body import read_json
from abeyance.http.disconnect import watch_body

STATUSES = {"bad-input": 400, "request-too-large": 413, "unsupported-media-type": 415}


class Notes:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line)
        if path := os.environ.get("BODY_APP_NOTES"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    async def process_startup(self, scope: Any, event: Any) -> None:
        """Lifespan, before the first request."""
        self.add("started")

    async def process_shutdown(self, scope: Any, event: Any) -> None:
        """Lifespan, after the last request."""
        self.add("stopped")

    async def on_get(self, req: Request, resp: Response) -> None:
        resp.media = self.lines


class Take:
    """Takes bodies."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    async def on_post(self, req: Request, resp: Response) -> None:
        body = await read_json(req)
        self.taken.append(body.decode())
        resp.content_type = "application/json"
        resp.data = body

    async def on_get(self, req: Request, resp: Response) -> None:
        resp.media = self.taken


class Slow:
    """Works for a while; `shielded` goes on when the request is cancelled."""

    def __init__(self, notes: Notes, name: str, *, shielded: bool) -> None:
        self._notes = notes
        self._name = name
        self._shielded = shielded
        self._tasks: set[asyncio.Task[None]] = set()

    async def on_post(self, req: Request, resp: Response) -> None:
        await read_json(req)
        work = asyncio.ensure_future(self._work(float(req.get_param("s") or 0)))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        try:
            await (asyncio.shield(work) if self._shielded else work)
        except asyncio.CancelledError:
            self._notes.add(f"{self._name} cancelled")
            raise
        resp.media = {"status": "done"}

    async def _work(self, seconds: float) -> None:
        self._notes.add(f"{self._name} began")
        await asyncio.sleep(seconds)
        self._notes.add(f"{self._name} finished")


async def answer_refusal(req: Request, resp: Response, error: RefusedError, params: object) -> None:
    """Answer a refusal as the real application does, as far as these tests look."""
    resp.status = STATUSES[error.code]
    resp.data = json.dumps({"error": {"code": error.code, "message": str(error)}}).encode()


def create_app() -> falcon.asgi.App[Request, Response]:
    notes = Notes()
    take = Take()
    app = falcon.asgi.App(middleware=[notes])
    app.add_route("/take", take)
    app.add_route("/taken", take)
    app.add_route("/notes", notes)
    app.add_route("/slow", Slow(notes, "slow", shielded=True))
    app.add_route("/bare", Slow(notes, "bare", shielded=False))
    app.add_error_handler(RefusedError, answer_refusal)
    return app


unwatched = create_app()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI application."""
    await unwatched(scope, watch_body(scope, receive), send)
