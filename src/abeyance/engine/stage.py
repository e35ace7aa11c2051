"""Where a branch's code runs: on a generator that lets go of the code, and that nothing is beneath.

A frame that a traceback refers to takes hold of the frame beneath it when it ends: in Python 3.12 and later
a coroutine's does so too. An error that a program keeps would thus hold the driver and everybody who called
it, with all that they know, the program included. A generator that waits has no frame beneath it, so the
chain ends there; and it waits without anything in its own variables. One that ends would take hold of who
ended it, so stages never end: there are as many as ever ran at once.
"""

from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

Came = tuple[Any, BaseException | None, bool]
"""What a coroutine yielded or returned, what it raised, and whether it has ended."""
_Stage = Generator[Came, tuple[Context, Callable[..., Any], tuple[Any, ...]], None]

_NOTHING: Came = (None, None, False)
# Taking from a list and adding to it are atomic, so threads share it.
_free: list[_Stage] = []


def run_on_stage(context: Context, function: Callable[..., Any], *arguments: Any) -> Came:
    """Run a coroutine's `send`, `throw` or `close` in `context`. Raises nothing that the coroutine raises."""
    try:
        stage = _free.pop()
    except IndexError:
        stage = _run()
        next(stage)
    came = stage.send((context, function, arguments))
    _free.append(stage)
    return came


def _run() -> _Stage:
    came = [_NOTHING]
    while True:
        context, function, arguments = yield came.pop()
        try:
            came.append((context.run(function, *arguments), None, False))
        except StopIteration as stop:
            came.append((stop.value, None, True))
        except BaseException as raised:
            # Without this frame, which isn't the code's.
            traceback = raised.__traceback__ and raised.__traceback__.tb_next
            came.append((None, raised.with_traceback(traceback), True))
            del traceback
        del context, function, arguments
