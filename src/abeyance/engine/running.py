"""The handlers of one run that are under way in this process."""

import asyncio
from collections.abc import Callable
from uuid import UUID

from abeyance.engine.effects import context_of, perform
from abeyance.engine.host import Decide, Host
from abeyance.engine.tool_context import ToolContext
from abeyance.engine.turn import Effect


class RunningCalls:
    """`contexts` are those of the calls and steps under way, by operation.

    `ended` gets the command that records how one ended, `broke` an error outside of user code.
    """

    def __init__(
        self, host: Host, run_id: UUID, ended: Callable[[Decide], None], broke: Callable[[Exception], None]
    ) -> None:
        self.contexts: dict[str, ToolContext | None] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self._host = host
        self._run_id = run_id
        self._ended = ended
        self._broke = broke

    def start(self, effect: Effect) -> None:
        """Run an effect."""
        context = context_of(effect, self._run_id, self._host.workshop.public_url())
        self.contexts[effect.op] = context
        task = asyncio.get_running_loop().create_task(self._perform(effect, context))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def cancel(self, op: str) -> None:
        """Tell a handler that nobody waits for it any more: it ends when it likes."""
        context = self.contexts.get(op)
        if context is not None:
            context.cancel()

    async def drain(self, seconds: float) -> list[str]:
        """Let what runs end within `seconds`; the operations that haven't, which are told to."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
        unfinished = list(self.contexts)
        for op in unfinished:
            self.cancel(op)
        return unfinished

    def abandon(self) -> None:
        """Tell all of them, and forget them."""
        for op in self.contexts:
            self.cancel(op)
        self.contexts.clear()

    async def _perform(self, effect: Effect, context: ToolContext) -> None:
        try:
            await self._pass("call-recorded")
            decide = await perform(effect, context, self._host.workshop)
            await self._pass("effect-done")
        except asyncio.CancelledError:
            self.contexts.pop(effect.op, None)
            raise
        except Exception as error:
            self._broke(error)
            return
        if self.contexts.get(effect.op) is context:
            self.contexts.pop(effect.op)
        self._ended(decide)

    async def _pass(self, place: str) -> None:
        if self._host.testing_only_barrier is not None:
            await self._host.testing_only_barrier(place, self._run_id)
