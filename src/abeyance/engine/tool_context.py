"""What a tool's handler is given beside its input: who it runs for, a link, and a way to pause.

What holds here:

1. Where no wait can be made, reading `wait_token` or calling `pause` raises, so nothing was handed on.
2. A wrong pause fails the call even if the handler swallows the error: the context remembers the first
   refusal.
3. Only an answer that this context's own `pause` made ends the call in a wait.
4. No `repr` shows the link: whoever has it can answer.
"""

import logging
import unicodedata
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal

from abeyance.engine.source import line_of_caller
from abeyance.errors import InvalidPauseError, PauseNotAvailableError

DEFAULT_PAUSE_MS = 86_400_000
MAX_PAUSE_MS = 2_073_600_000
"""24 days: the longest time that a pause waits."""
MAX_NAME_LENGTH = 200
MIN_TOKEN_LENGTH = 16
"""A shorter last part of a link is no token but a word, which may stand in any text."""

RefusalCode = Literal["pause-not-available", "invalid-pause"]


@dataclass(frozen=True, slots=True)
class WaitToken:
    """A link that answers this call. `id` is the wait's `tokenId`; `url` is the credential, so hand it only
    to the system that answers.
    """

    id: str
    url: str = field(repr=False)

    @property
    def page_url(self) -> str:
        """The same link's page with a form, for a person: the same credential."""
        server, _, rest = self.url.rpartition("/v1/wait-tokens/")
        return f"{server}/w/{rest.removesuffix('/complete')}"


@dataclass(frozen=True, slots=True, eq=False)
class PauseAnswer:
    """What `ctx.pause()` returns, and the handler after it. Made by hand it is refused.

    `timeout_ms` is how long the run waits, `name` for what, `line` where the pause stands (`module:number`).
    """

    timeout_ms: int
    name: str | None
    line: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pause that was refused during this call. The call fails with this code, whatever the handler does."""

    code: RefusalCode
    reason: str


class ToolContext:
    """What a handler knows about its call, and the way to pause the run.

    `run_id` is the run's id. `idempotency_key` (a UUID) is the same every time this call runs, after a crash
    and in a retry too: hand it on with the request. `attempt` counts the tries of the step from 1.
    """

    __slots__ = (
        "_answers",
        "_cancelled",
        "_refusal",
        "_wait_token",
        "attempt",
        "idempotency_key",
        "run_id",
        "tool_id",
    )

    def __init__(
        self,
        *,
        run_id: str,
        idempotency_key: str,
        tool_id: str,
        attempt: int = 1,
        wait_token: WaitToken | None = None,
    ) -> None:
        self.run_id = run_id
        self.idempotency_key = idempotency_key
        self.tool_id = tool_id
        self.attempt = attempt
        self._wait_token = wait_token
        self._cancelled = False
        self._refusal: Refusal | None = None
        self._answers: list[PauseAnswer] = []

    @classmethod
    def for_test(
        cls,
        *,
        run_id: str = "00000000-0000-7000-8000-000000000001",
        idempotency_key: str = "00000000-0000-5000-8000-000000000001",
        tool_id: str = "test.tool",
        attempt: int = 1,
        pauses: bool = True,
        cancelled: bool = False,
    ) -> "ToolContext":
        """A context for a unit test of a handler. Its link leads nowhere; `pauses=False` has none."""
        token = WaitToken(f"pause:{idempotency_key}:1", "http://localhost/v1/wait-tokens/for-test/complete")
        context = cls(
            run_id=run_id,
            idempotency_key=idempotency_key,
            tool_id=tool_id,
            attempt=attempt,
            wait_token=token if pauses else None,
        )
        if cancelled:
            context.cancel()
        return context

    @property
    def wait_token(self) -> WaitToken:
        """The link to this call's wait, the same all through one run of the call.

        Raises `PauseNotAvailableError` where the tool can't pause. Read it before anything is handed on.
        """
        if self._wait_token is None:
            raise self._refuse(PauseNotAvailableError())
        return self._wait_token

    def pause(self, timeout_ms: int = DEFAULT_PAUSE_MS, name: str | None = None) -> PauseAnswer:
        """Make the value to return, so that the run waits for the answer that is posted to the link.

        `timeout_ms` is how long it waits: whole milliseconds, 1 to 2 073 600 000 (24 days). `name` says what
        it waits for, in 1 to 200 characters; it stays for ever, so keep personal data out of it.
        """
        if self._wait_token is None:
            raise self._refuse(PauseNotAvailableError())
        try:
            answer = PauseAnswer(
                timeout_ms=_checked_timeout(timeout_ms),
                name=_checked_name(name),
                line=line_of_caller(),
            )
        except InvalidPauseError as error:
            raise self._refuse(error) from None
        self._answers.append(answer)
        return answer

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this call's result any more: it is over its time, or the run went on."""
        return self._cancelled

    @property
    def log(self) -> "ToolLog":
        """A logger that names the tool, the run and the attempt. Logs aren't erased: no personal data."""
        fields = {"toolId": self.tool_id, "runId": self.run_id, "attempt": self.attempt}
        return ToolLog(logging.getLogger(f"abeyance.tools.{self.tool_id}"), fields)

    @property
    def refusal(self) -> Refusal | None:
        """The first pause that was refused. For the executor: the call fails with it."""
        return self._refusal

    def cancel(self) -> None:
        """Tell the handler that its result is wanted no more. For the executor, from any thread."""
        self._cancelled = True

    def made(self, answer: PauseAnswer) -> bool:
        """Whether this context's `pause` made this very answer. For the executor."""
        return any(answer is own for own in self._answers)

    def redact(self, text: str) -> str:
        """`text` with the link and its token replaced by `<link>`. For the executor: errors may quote it."""
        if self._wait_token is None:
            return text
        url = self._wait_token.url
        token = url.removesuffix("/complete").rpartition("/")[2]
        redacted = text.replace(url, "<link>")
        return redacted.replace(token, "<link>") if len(token) >= MIN_TOKEN_LENGTH else redacted

    def __repr__(self) -> str:
        return f"ToolContext(tool_id={self.tool_id!r}, run_id={self.run_id!r}, attempt={self.attempt})"

    def _refuse(self, error: PauseNotAvailableError | InvalidPauseError) -> Exception:
        if self._refusal is None:
            not_available = isinstance(error, PauseNotAvailableError)
            code: RefusalCode = "pause-not-available" if not_available else "invalid-pause"
            self._refusal = Refusal(code, str(error))
        return error


class ToolLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry the call's ids; fields given as `extra` are kept beside them."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the call's ids to the record's fields."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


def _checked_timeout(timeout_ms: object) -> int:
    # `True` is an int in Python, and is not a time.
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise InvalidPauseError("timeout_ms takes a whole number of milliseconds, as an int")
    if not 1 <= timeout_ms <= MAX_PAUSE_MS:
        raise InvalidPauseError(f"timeout_ms takes 1 to {MAX_PAUSE_MS} milliseconds (24 days)")
    return int(timeout_ms)


def _checked_name(name: object) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise InvalidPauseError("name takes a text that says what the run waits for, or nothing")
    if len(name) > MAX_NAME_LENGTH or not name.strip():
        raise InvalidPauseError(f"name takes 1 to {MAX_NAME_LENGTH} characters, not all of them blank")
    # Lone surrogates (Cs) have no UTF-8 form, so no event could hold them.
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise InvalidPauseError("name takes no control characters")
    return str(name)
