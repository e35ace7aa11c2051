"""How a program ended, as data, and the lines that are named for it."""

from types import CoroutineType, TracebackType
from typing import Any

from abeyance.engine.isolation import ForeignAwait
from abeyance.engine.operations import Raised
from abeyance.engine.scripting import ProgramFailed
from abeyance.engine.source import format_line
from abeyance.errors import CallFailedError, TooManyBranchesError


class NodeFailed(Exception):
    """The code of one node of a flow raised; `__cause__` is what it raised."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


def raised_by(error: BaseException) -> Raised:
    """The outcome of a program that ended with `error`."""
    node: str | None = None
    if isinstance(error, NodeFailed):
        node, error = error.node, error.__cause__ or error
    line = line_of_error(error.__traceback__)
    if isinstance(error, CallFailedError):
        detail = error.detail if isinstance(error.detail, str) else str(error)
        return Raised(code=error.failure_code, detail=detail, line=line, node=error.operation)
    code = "handler-error"
    if isinstance(error, ProgramFailed | TooManyBranchesError):
        code = error.code
    elif isinstance(error, ForeignAwait):
        code = "nondeterministic-await"
    detail = _message(error) if code != "handler-error" else f"{type(error).__name__}: {_message(error)}"
    return Raised(code=code, detail=detail, line=line, node=node)


def line_of_suspended(coroutine: "CoroutineType[Any, Any, Any] | None") -> str:
    """The line at which a coroutine waits, inside the functions that it awaits."""
    while coroutine is not None and isinstance(coroutine.cr_await, CoroutineType):
        coroutine = coroutine.cr_await
    frame = coroutine.cr_frame if coroutine is not None else None
    return format_line(frame.f_globals.get("__name__"), frame.f_lineno) if frame is not None else ""


def line_of_error(traceback: TracebackType | None) -> str:
    """The innermost line of the user's own package in a traceback: where they look first.

    Lines of abeyance, and of libraries that the user's code called, are passed over.
    """
    line, package = "", None
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        package = package or (top if top != "abeyance" else None)
        if top == package:
            line = format_line(module, traceback.tb_lineno)
        traceback = traceback.tb_next
    return line


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # a user's own __str__
        text = "(its message can't be shown)"
    # Lone surrogates have no UTF-8 form, so no content could hold them.
    return text.encode("utf-8", "backslashreplace").decode()
