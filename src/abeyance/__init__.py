"""abeyance: runs that wait for the outside world, kept as a journal of signed events.

A run does work, then waits: for another system's answer, a person's approval, a
signal, a time. While it waits nothing runs and nothing is held in memory. When
the answer comes, the run is rebuilt by replay and goes on.

What a user imports stands in ``__all__``; everything else may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abeyance.client import Client
    from abeyance.engine.define import flow, script, step, tool
    from abeyance.engine.definitions import Retry
    from abeyance.engine.http_tools import http_tool
    from abeyance.engine.scripting import ScriptContext
    from abeyance.engine.tool_context import PauseAnswer, ToolContext, WaitToken
    from abeyance.errors import (
        AbeyanceError,
        BranchCancelled,
        CallFailedError,
        InvalidDefinitionError,
        InvalidPauseError,
        PauseNotAvailableError,
        UnexpectedResponseError,
    )

__all__ = [
    "AbeyanceError",
    "BranchCancelled",
    "CallFailedError",
    "Client",
    "InvalidDefinitionError",
    "InvalidPauseError",
    "PauseAnswer",
    "PauseNotAvailableError",
    "Retry",
    "ScriptContext",
    "ToolContext",
    "UnexpectedResponseError",
    "WaitToken",
    "__version__",
    "flow",
    "http_tool",
    "script",
    "step",
    "tool",
]

__version__ = "0.1.0"

# Loaded when first asked for: `abeyance --version` and the command line's help need none of them.
_HOMES = {
    "abeyance.client": ("Client",),
    "abeyance.engine.define": ("flow", "script", "step", "tool"),
    "abeyance.engine.definitions": ("Retry",),
    "abeyance.engine.http_tools": ("http_tool",),
    "abeyance.engine.scripting": ("ScriptContext",),
    "abeyance.engine.tool_context": ("PauseAnswer", "ToolContext", "WaitToken"),
    "abeyance.errors": (
        "AbeyanceError",
        "BranchCancelled",
        "CallFailedError",
        "InvalidDefinitionError",
        "InvalidPauseError",
        "PauseNotAvailableError",
        "UnexpectedResponseError",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
