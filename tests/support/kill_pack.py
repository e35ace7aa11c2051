"""The runs that the kill tests start: between them they come to every place where a process may be stopped.

Handlers write down in a file that they were entered, before they do anything else. A file survives `kill -9`.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, RootModel

from abeyance import PauseAnswer, Retry, ToolContext, flow, script, step, tool
from abeyance.engine.scripting import ScriptContext

OUTSIDE = "KILL_OUTSIDE"
"""The variable that names the file."""


class Empty(BaseModel):
    """No input."""


class Loose(RootModel[Any]):
    """Any JSON."""


def note(**line: object) -> None:
    """One line in the world outside."""
    descriptor = os.open(os.environ[OUTSIDE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def count(name: str) -> None:
    """A step: it may run again, and it has no key."""
    note(step=name)


@tool(id="kill.look", mutating=False)
def look(given: Loose) -> Loose:
    """Changes nothing, so nothing is recorded before it runs."""
    return given


@tool(id="kill.pay")
def pay(given: Loose, ctx: ToolContext) -> Loose:
    """Changes something outside."""
    note(run=ctx.run_id, key=ctx.idempotency_key)
    return given


@tool(id="kill.ask", pauses=True)
def ask(given: Loose, ctx: ToolContext) -> Loose | PauseAnswer:
    """Hands its link on and waits for an hour."""
    note(run=ctx.run_id, key=ctx.idempotency_key, link=ctx.wait_token.url, wanted=given.root)
    return ctx.pause(timeout_ms=3_600_000)


@tool(id="kill.hasty", pauses=True)
def hasty(given: Loose, ctx: ToolContext) -> Loose | PauseAnswer:
    """Waits for a moment in which nobody answers."""
    note(run=ctx.run_id, key=ctx.idempotency_key)
    return ctx.pause(timeout_ms=20)


@tool(id="kill.flaky")
def flaky(given: Empty, ctx: ToolContext) -> Loose:
    """Fails at its first attempt."""
    note(run=ctx.run_id, key=ctx.idempotency_key)
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return Loose(ctx.attempt)


@script(id="kill.script")
async def everything(ctx: ScriptContext, given: Empty) -> Loose:
    """Values, a step, calls, a pause beside a timer, a race that a timer wins, a wait that times out."""
    name = str(await ctx.uuid())
    await ctx.step("count", count, name)
    await ctx.call(look, Loose(1))
    await ctx.call(pay, Loose("first"))
    answer, _ = await ctx.gather(ctx.call(ask, Loose(True)), ctx.sleep(0.02))
    await ctx.race(ctx.call(ask, Loose(False)), ctx.sleep(0.02))
    late = await ctx.gather(ctx.call(hasty, Loose(1)), return_exceptions=True)
    paid = await ctx.call(pay, Loose([answer.root, type(late[0]).__name__]))
    return Loose([name, *paid.root])


def _answer(results: Mapping[str, Any]) -> Loose:
    found: Loose = results["ask"]
    return found


retrying = flow(
    "kill.flow",
    input=Empty,
    steps=[
        step("flaky", flaky, retry=Retry(attempts=2, delay_ms=20)),
        step("ask", ask, needs=["flaky"], input=lambda results: Loose(True)),
        step("pay", pay, needs=["ask"], input=_answer),
    ],
)
