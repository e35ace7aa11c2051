"""What came of each request with a known link, noted behind its reply.

A request over the limit, or with a link that nobody knows (any more), is noted nowhere. What is noted is in
`abeyance.engine.attempts`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar
from uuid import UUID

from falcon.asgi import Request

from abeyance.engine.attempts import LinkAttempts
from abeyance.engine.questions import Question
from abeyance.engine.service import OpenLink
from abeyance.errors import AbeyanceError, RefusedError, WaitTokenNotFoundError

Result = TypeVar("Result")

ACCEPTED = "accepted"
ACCEPTABLE = "acceptable"
_LONGEST_LENGTH = 12


class Watched:
    """A link whose attempts are noted. It is an `OpenLink` too."""

    def __init__(self, link: OpenLink, note: Callable[[OpenLink, str, int | None], None], size: int | None):
        self._link = link
        self._note = note
        self._size = size

    @property
    def run_id(self) -> UUID:
        """See `OpenLink.run_id`."""
        return self._link.run_id

    @property
    def wait_id(self) -> str:
        """See `OpenLink.wait_id`."""
        return self._link.wait_id

    async def read(self, reading: Awaitable[Result]) -> Result:
        """What `reading` reads of the request. A refusal of it comes after that of a killed link."""
        try:
            return await reading
        except RefusedError as error:
            await self._link.confirm()
            self._note(self._link, error.code, self._size)
            raise

    async def answer(self, value: bytes) -> None:
        """See `OpenLink.answer`."""
        await self._noted(self._link.answer(value), value, ACCEPTED)

    async def check(self, value: bytes) -> None:
        """See `OpenLink.check`."""
        await self._noted(self._link.check(value), value, ACCEPTABLE)

    async def confirm(self) -> None:
        """See `OpenLink.confirm`."""
        await self._link.confirm()

    async def ask(self) -> Question:
        """See `OpenLink.ask`."""
        return await self._link.ask()

    async def _noted(self, work: Awaitable[None], value: bytes, verdict: str) -> None:
        size = len(value) if self._size is None else self._size
        try:
            await work
        except WaitTokenNotFoundError:
            raise
        except AbeyanceError as error:
            self._note(self._link, error.code, size)
            raise
        self._note(self._link, verdict, size)


class AttemptNotes(Protocol):
    """Makes links watched."""

    def watch(self, req: Request, link: OpenLink) -> Watched:
        """This request's link."""


class NoNotes:
    """Nothing is noted."""

    def watch(self, req: Request, link: OpenLink) -> Watched:
        """See `AttemptNotes.watch`."""
        return Watched(link, lambda *_: None, None)


class QueuedNotes:
    """Notes what came of a request for the operator. `client_of` gives the sender's address."""

    def __init__(self, attempts: LinkAttempts, client_of: Callable[[dict[str, Any]], bytes]) -> None:
        self._attempts = attempts
        self._client_of = client_of

    def watch(self, req: Request, link: OpenLink) -> Watched:
        """See `AttemptNotes.watch`."""
        scope = req.scope

        def note(tried: OpenLink, verdict: str, size: int | None) -> None:
            client = self._client_of(scope)
            self._attempts.note(tried.run_id, tried.wait_id, verdict=verdict, size=size, client=client)

        return Watched(link, note, declared_size(scope["headers"]))


def declared_size(headers: list[tuple[bytes, bytes]]) -> int | None:
    """The Content-Length of a request, if it has one that is a number."""
    declared = [value for name, value in headers if name == b"content-length"]
    if len(declared) != 1 or not declared[0].isdigit() or len(declared[0]) > _LONGEST_LENGTH:
        return None
    return int(declared[0])
