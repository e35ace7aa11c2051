"""Logging of a process: one line a record on stderr, in UTC, and no secret in any of them.

A link is its own credential, and errors quote what they choked on. So, whoever logged it, a library included:

* of an error only its type and the lines that it came through are written, never its text, unless the error
  is ours: those hold no value of anybody's;
* links are `/v1/wait-tokens/:token`, `/w/:token`, `/v1/hooks/:token`, whatever stands around them; a token
  alone is `:token`, a key `abk_…`, and the deployment's key isn't written however it looks;
* gunicorn's log goes the same way, and its access log is off; httpx, httpcore and asyncio say only what is
  wrong;
* what ends a thread, or can't be raised, is logged like the rest.

The text of a handler's error is in no log but that of `abeyance dev`, whose reader wrote the handler.
"""

import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, TypeAlias

from gunicorn.glogging import Logger

from abeyance.errors import AbeyanceError, ToolError

_LOG = logging.getLogger("abeyance.crash")
_CALLS = "abeyance.calls"
_QUIET = ("httpx", "httpcore", "asyncio")

# The path before a token, plain or percent-encoded once, and the token up to what can't be part of one.
_LINK: Final = re.compile(
    r"((?:wait(?:-|%2[Dd])tokens|hooks|(?<![\w%])w|%2[Ff]w)(?:/|%2[Ff]|\\/))(?!:token)"
    r"(?:[^\s/\\\"'`<>?#&,;)\]}%]|%(?!2[Ff]))+"
)
# 32 random bytes in base64url; a digest of 32 bytes in hex has 64 characters.
_TOKEN: Final = re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])", re.ASCII)
_KEY: Final = re.compile(r"\b(abk_|whsec_)[\w+/=-]+", re.ASCII)
_BEARER: Final = re.compile(r"\b(bearer)\s+[^\s\"',]+", re.IGNORECASE)
# What asyncio writes of a task or a handle: it has the result, the error, the arguments.
_REPR: Final = re.compile(r"<.*>", re.DOTALL)

_Info: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)  # fmt: skip


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without links, tokens, keys and `secrets`."""
    for secret in secrets:
        text = text.replace(secret, "abk_…")
    text = _LINK.sub(r"\1:token", text)
    text = _TOKEN.sub(":token", text)
    text = _KEY.sub(r"\1…", text)
    return _BEARER.sub(r"\1 …", text)


def describe(error: BaseException | None) -> str:
    """The types of an error and its causes, and the lines of code that they came through."""
    parts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            parts += map(describe, error.exceptions)
        lines = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        parts.append(
            f"{type(error).__module__}.{type(error).__qualname__}{_harmless(error)}\n{lines}".rstrip()
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\ncaused by ".join(parts)


def _harmless(error: BaseException) -> str:
    """What may be written of an error's text: all of ours, names of modules, codes of system and database."""
    if isinstance(error, AbeyanceError | ImportError) and not isinstance(error, ToolError):
        return f": {error}"
    code = error.strerror if isinstance(error, OSError) else getattr(error, "sqlstate", None)
    return f": {code}" if code else ""


class SafeFormatter(logging.Formatter):
    """One record as text: time, level, name, message, and what is left of an error."""

    converter = staticmethod(time.gmtime)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`. A record that can't be formatted has its place instead."""
        record.exc_text = None  # another handler's, with the error's text
        return redact(super().format(record), self._secrets)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.formatMessage`."""
        if record.name == "asyncio":
            record.message = _REPR.sub("<…>", record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _Info) -> str:
        """See `logging.Formatter.formatException`."""
        return describe(ei[1])


class SafeHandler(logging.StreamHandler[Any]):
    """Writes records to stderr; one that can't be written is named without its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.handleError`: Python's own prints the message and the arguments."""
        kind = sys.exc_info()[0]
        name = "broken stream" if kind is None else kind.__name__
        try:
            self.stream.write(
                f"a log record of {record.name} at line {record.lineno} can't be written: {name}\n"
            )
        except (OSError, ValueError):
            pass


class GunicornLog(Logger):  # type: ignore[misc] # gunicorn is untyped
    """gunicorn's log through ours: it has no handlers, and no access log."""

    def setup(self, cfg: Any) -> None:
        """See `gunicorn.glogging.Logger.setup`."""
        super().setup(cfg)
        self.error_log.propagate = True
        self.access_log.disabled = True

    def _set_handler(self, log: logging.Logger, output: Any, fmt: Any, stream: Any = None) -> None:
        """Leave it to the root's handler."""


def configure_logging(level: str, *, secrets: Iterable[str | None] = (), dev: bool = False) -> None:
    """Send the process's log to stderr from `level` up. `dev`: also the texts of handlers' errors."""
    handler = SafeHandler(sys.stderr)
    handler.setFormatter(SafeFormatter(filter(None, secrets)))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for quiet in _QUIET:
        logging.getLogger(quiet).setLevel(max(logging.WARNING, root.level))
    logging.getLogger(_CALLS).setLevel(logging.DEBUG if dev else max(logging.INFO, root.level))
    threading.excepthook = _log_thread
    sys.unraisablehook = _log_unraisable


def _log_thread(crash: threading.ExceptHookArgs) -> None:
    if crash.exc_value is not None and not isinstance(crash.exc_value, SystemExit):
        _LOG.error("a thread ended", exc_info=crash.exc_value)


def _log_unraisable(crash: "sys.UnraisableHookArgs") -> None:
    if crash.exc_value is not None:
        _LOG.error("an error that nobody could be told", exc_info=crash.exc_value)
