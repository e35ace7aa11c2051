"""Where user code stands: lines as `module:number`, and the digest of a function's source.

A line is stored in signed events for ever, so it names the module, never a folder of somebody's machine. Two
processes that loaded the same text get the same digest, whatever their Python version: it is over the source.
"""

import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from types import FrameType
from typing import Any

MAX_LINE_LENGTH = 200


def format_line(module: str | None, number: int) -> str:
    """`module:number`, at most 200 characters; of a longer module name the end is kept."""
    text = f"{module or '<unknown>'}:{number}"
    return text[-MAX_LINE_LENGTH:]


def line_of_frame(frame: FrameType) -> str:
    """The line that `frame` is at."""
    return format_line(frame.f_globals.get("__name__"), frame.f_lineno)


def line_of_caller() -> str:
    """The line that called the function which asks."""
    return line_of_frame(sys._getframe(2))


def line_of_function(function: Callable[..., Any]) -> str:
    """The line where the function, or its first decorator, stands."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    return format_line(getattr(inner, "__module__", None), code.co_firstlineno if code else 0)


def source_digest(function: Callable[..., Any]) -> str:
    """SHA-256 (hex) of the function's source without its indentation. Raises `OSError` if there is none."""
    return hashlib.sha256(textwrap.dedent(inspect.getsource(function)).encode()).hexdigest()
