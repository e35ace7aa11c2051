"""`Idempotency-Key`: the same request again has no second effect, and is answered as it was.

1. A refusal doesn't use the key up: nothing was taken.
2. What the first request was answered is replayed byte for byte, with `Idempotency-Replayed: true`. While
   there is none (its process died, or still waits for the run), the run that came of it is shown as it is
   now.
3. Where there is neither, the answer is `409`: `idempotency-key-in-flight` while the first may be under way,
   `idempotency-replay-withheld` afterwards.

**The key** is 1 to 255 characters of UTF-8, none of them a control character; white space around is not the
key's. A value in double quotes is a string of RFC 8941, as the IETF's draft "The Idempotency-Key HTTP Header
Field" has it: `"k"` and `k` are the same key. `Idempotency_Key` is another header.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from unicodedata import category
from uuid import UUID

from falcon.asgi import Request, Response

from abeyance.engine.callers import Caller
from abeyance.engine.replies import Replies, UsedKey
from abeyance.errors import (
    AbeyanceError,
    BadInputError,
    IdempotencyKeyInFlightError,
    IdempotencyKeyMismatchError,
    IdempotencyReplayWithheldError,
    PerhapsStoredError,
    RefusedError,
    StoreUnavailableError,
)
from abeyance.http.resources.waiting import WaitingRequests
from abeyance.journal.replies import StoredReply

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
MAX_KEY_LENGTH: Final = 255

_NAME = HEADER.lower().encode()
_QUOTED = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_VERSION = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """An answer: status, body, `Location` if it has one, and the run that it is about, if it is about one.

    `secret`: it says something that is said once, and so isn't kept.
    """

    status: int
    body: bytes
    location: str = ""
    run_id: UUID | None = None
    secret: bool = False

    def pack(self) -> bytes:
        """What is kept of it."""
        location = self.location.encode()
        head = self.status.to_bytes(2) + len(location).to_bytes(2)
        return _VERSION + head + location + self.body

    @classmethod
    def unpack(cls, kept: bytes) -> "Rendered":
        """The answer that was packed."""
        body = 5 + int.from_bytes(kept[3:5])
        return cls(status=int.from_bytes(kept[1:3]), body=kept[body:], location=kept[5:body].decode())

    def put(self, resp: Response) -> None:
        """Answer with it."""
        resp.status = self.status
        resp.data = self.body
        if self.location:
            resp.set_header("Location", self.location)


First = Callable[[UsedKey | None], Awaitable[Rendered]]
"""Does what was asked. With a key, its `row` goes in with the effect, unless the key was reserved."""
Again = Callable[[UUID], Awaitable[Rendered]]
"""Shows the run that came of the first request, as it is now."""


class Idempotency:
    """Answers the requests of one process once for each key. `replies` is `None` where no keys are kept."""

    def __init__(self, replies: Replies | None, waiting: WaitingRequests) -> None:
        self._replies = replies
        self._waiting = waiting
        self._under_way: set[bytes] = set()

    async def answer(
        self, req: Request, resp: Response, body: bytes, first: First, *, again: Again | None = None
    ) -> None:
        """Answer by `first`, or as the first request with this key was answered.

        The effect is a run's append that takes the key's row with it. `body` is the request's, canonical.
        Raises `BadInputError` for a wrong key, the refusals of keys, and what `first` raises.
        """
        key = self._key(req, body)
        if key is None:
            (await self._waiting.finish(first(None))).put(resp)
        else:
            await self._waiting.finish(self._with_run(key, resp, first, again))

    async def answer_reserved(self, req: Request, resp: Response, body: bytes, first: First) -> None:
        """As `answer`, for an effect that isn't a run's append: the key is reserved before it.

        What `first` raises says that nothing was taken, but for `PerhapsStoredError`: then, and if the
        process dies between the two, the key stays used though nothing may have come of it.
        """
        key = self._key(req, body)
        if key is None:
            (await self._waiting.finish(first(None))).put(resp)
        else:
            await self._waiting.finish(self._reserved(key, resp, first))

    def _key(self, req: Request, body: bytes) -> UsedKey | None:
        sent = find_key(req.scope["headers"])
        if sent is None or self._replies is None:
            return None
        caller: Caller = req.context.caller
        target = f"{req.method} {req.path}?".encode() + req.scope.get("query_string", b"")
        return self._replies.use(
            workspace=caller.workspace,
            holder=caller.actor or "",
            path=req.path,
            key=sent,
            request=len(target).to_bytes(8) + target + body,
        )

    async def _with_run(self, key: UsedKey, resp: Response, first: First, again: Again | None) -> None:
        known = await key.find()
        if known is None:
            if key.row.scope in self._under_way:
                raise IdempotencyKeyInFlightError
            self._under_way.add(key.row.scope)
            try:
                rendered = await first(key)
            except AbeyanceError:
                # Another request with this key was first, or this one failed after its effect.
                known = await key.find()
                if known is None:
                    raise
            else:
                await _keep(key, rendered)
                rendered.put(resp)
                return
            finally:
                self._under_way.discard(key.row.scope)
        await self._again(key, known, resp, again)

    async def _reserved(self, key: UsedKey, resp: Response, first: First) -> None:
        if not await self._reserve(key):
            known = await key.find()
            if known is None:  # freed or expired just now
                raise IdempotencyKeyInFlightError
            await self._again(key, known, resp, None)
            return
        try:
            rendered = await first(key)
        except PerhapsStoredError:
            raise
        except (RefusedError, StoreUnavailableError):
            with suppress(StoreUnavailableError):
                await key.free()
            raise
        await _keep(key, rendered)
        rendered.put(resp)

    async def _reserve(self, key: UsedKey) -> bool:
        try:
            return await key.reserve()
        except StoreUnavailableError:
            with suppress(StoreUnavailableError):
                await key.free()  # it may be stored, and nothing came of it
            raise

    async def _again(self, key: UsedKey, known: StoredReply, resp: Response, again: Again | None) -> None:
        if not key.matches(known):
            raise IdempotencyKeyMismatchError
        kept = await key.open(known)
        if kept is not None:
            rendered = Rendered.unpack(kept)
        elif again is not None and known.run_id is not None:
            rendered = await again(known.run_id)
        elif key.is_under_way(known):
            raise IdempotencyKeyInFlightError
        else:
            raise IdempotencyReplayWithheldError
        rendered.put(resp)
        resp.set_header(REPLAYED, "true")


async def _keep(key: UsedKey, rendered: Rendered) -> None:
    """Keep what is answered, if the store can; what was asked for is done in any case."""
    with suppress(StoreUnavailableError):
        await key.keep(rendered.run_id, None if rendered.secret else rendered.pack())


def find_key(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The request's key, `None` if it has none. Raises `BadInputError` for one that isn't a key."""
    sent = {value.strip(b" \t") for name, value in headers if name == _NAME}
    if not sent:
        return None
    if len(sent) > 1:
        raise BadInputError(f"send one {HEADER}, not several different ones")
    try:
        key = sent.pop().decode()
    except UnicodeDecodeError:
        raise BadInputError(f"{HEADER} must be UTF-8") from None
    if key.startswith('"'):
        quoted = _QUOTED.fullmatch(key)
        if quoted is None:
            raise BadInputError(f"an {HEADER} that begins with a quote must be a whole quoted string")
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    if not 1 <= len(key) <= MAX_KEY_LENGTH or any(category(each) == "Cc" for each in key):
        raise BadInputError(f"{HEADER} must be 1 to {MAX_KEY_LENGTH} characters, no control characters")
    return key
