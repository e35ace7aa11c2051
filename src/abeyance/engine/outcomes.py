"""How a program ended, as data, and the lines that are named for it."""

from types import CoroutineType, FrameType, TracebackType
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
    places: list[tuple[str, int]] = []
    while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
        places.append(_place(coroutine.cr_frame, coroutine.cr_frame.f_lineno))
        coroutine = coroutine.cr_await
    return _innermost_of_user(places)


def line_of_error(traceback: TracebackType | None) -> str:
    """The line at which an error came up."""
    places: list[tuple[str, int]] = []
    while traceback is not None:
        places.append(_place(traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _innermost_of_user(places)


def _place(frame: FrameType, number: int) -> tuple[str, int]:
    return str(frame.f_globals.get("__name__", "")), number


def _innermost_of_user(places: list[tuple[str, int]]) -> str:
    """The innermost line in the user's own package, where they look first.

    Lines of abeyance, and of libraries that the user's code called, are passed over.
    """
    outer = [module.partition(".")[0] for module, _ in places]
    own = next((package for package in outer if package != "abeyance"), None)
    lines = [format_line(*place) for package, place in zip(outer, places, strict=True) if package == own]
    return lines[-1] if lines else ""


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # a user's own __str__
        text = "(its message can't be shown)"
    # Lone surrogates have no UTF-8 form, so no content could hold them.
    return text.encode("utf-8", "backslashreplace").decode()
