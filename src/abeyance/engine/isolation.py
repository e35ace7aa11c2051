"""What a program can't reach while it is advanced: the event loop and the context of whoever advances it.

The executor advances programs inside its own asyncio loop, `runs replay` outside of any. A program must not
be able to tell, so while it runs there is no loop to use: `asyncio.sleep`, `gather`, `create_task`,
`to_thread` find `_NoLoop` and fail with `ForeignAwait`, live and in replay alike. Hooks for asynchronous
generators are off, else the loop would finish a program's generator in a task of its own. Every branch has
its own context variables, so that `decimal.localcontext` of one run is not another's.
"""

import sys
from asyncio.events import AbstractEventLoop, _get_running_loop, _set_running_loop
from typing import Any, NoReturn, cast

WAY_OUT = (
    "a script awaits only its context's operations: ctx.sleep instead of asyncio.sleep, ctx.gather instead of"
    " asyncio.gather; input and output belong into a tool (ctx.call) or a step (ctx.step)"
)


class ForeignAwait(BaseException):
    """A program tried to use the event loop. The run fails `nondeterministic-await`."""


class _NoLoop:
    """Stands where the running loop would be."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise ForeignAwait(WAY_OUT)


_NO_LOOP = cast(AbstractEventLoop, _NoLoop())


Outside = tuple[AbstractEventLoop | None, Any, Any]
"""What `leave` puts back: the loop, and both hooks for asynchronous generators."""


def enter() -> Outside:
    """Hide this thread's loop and hooks. Only synchronous code may run before `leave`."""
    first_iteration, finalizer = sys.get_asyncgen_hooks()
    loop = _get_running_loop()
    if first_iteration is not None or finalizer is not None:
        sys.set_asyncgen_hooks(None, None)
    _set_running_loop(_NO_LOOP)
    return loop, first_iteration, finalizer


def leave(outside: Outside) -> None:
    """Show them again."""
    loop, first_iteration, finalizer = outside
    _set_running_loop(loop)
    if first_iteration is not None or finalizer is not None:
        sys.set_asyncgen_hooks(first_iteration, finalizer)
