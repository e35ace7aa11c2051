"""`POST /v1/wait-tokens/{token}/complete`: the link. The token is the credential, nothing else is asked for.

The checks come in this order: 405, 429, 404, the workspace's 503 and 409, 415, 413, 400
`bad-input`, then the wait's state, then the schema. A wrong link and an unknown one are answered alike,
and no answer says anything about the run. A check goes through the same ones.
"""

from typing import Protocol

from falcon.asgi import Request, Response

from abeyance.engine.service import RunService
from abeyance.errors import WaitTokenNotFoundError
from abeyance.http.body import read_json
from abeyance.http.errors import MethodNotAllowedError
from abeyance.http.link_attempts import AttemptNotes
from abeyance.http.render import ACCEPTABLE, ACCEPTED
from abeyance.http.resources.waiting import WaitingRequests
from abeyance.http.schemas import read_check

TEMPLATE = "/v1/wait-tokens/{token}/complete"
# What the router's one segment doesn't match: no token, or one with a slash. Such a link is wrong like
# any other.
ODD_LINKS = r"^/v1/wait-tokens/(?P<token>.*)/complete$"


class LinkGate(Protocol):
    """Bounds how often a client may come. It runs before the link is looked up."""

    async def admit(self, request: Request) -> None:
        """Let the request pass, or raise `RateLimitedError`."""


class OpenGate:
    """No limit."""

    async def admit(self, request: Request) -> None:
        """Let every request pass."""


class WaitTokenLink:
    """Takes another system's answer to one wait."""

    open_to_all = True

    def __init__(
        self, runs: RunService, waiting: WaitingRequests, gate: LinkGate, notes: AttemptNotes
    ) -> None:
        self._runs = runs
        self._waiting = waiting
        self._gate = gate
        self._notes = notes

    async def on_post(self, req: Request, resp: Response, token: str) -> None:
        """Take the body as the answer; the run goes on behind the reply. With `?check=true` take nothing, and
        say whether it would be taken.
        """
        await self._gate.admit(req)
        if not token.isascii():
            raise WaitTokenNotFoundError
        link = self._notes.watch(req, await self._runs.open_link(token))
        value = await link.read(read_json(req))
        if await link.read(_is_check(req)):
            await self._waiting.finish(link.check(value))
            resp.data = ACCEPTABLE
            return
        await self._waiting.finish(link.answer(value))
        resp.data = ACCEPTED

    async def answer_odd(self, req: Request, resp: Response | None, **fields: str) -> None:
        """Answer a link that the router doesn't match as any wrong link is answered."""
        assert resp is not None  # a WebSocket comes no further than `Api`
        req.context.route = TEMPLATE
        if req.method != "POST":
            raise MethodNotAllowedError("POST")
        await self.on_post(req, resp, fields["token"])


async def _is_check(req: Request) -> bool:
    return read_check(req.scope["query_string"])
