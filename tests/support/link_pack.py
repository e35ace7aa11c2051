"""A pack whose handlers do what their input says, and tell a folder what they were given.

`FLEET_OUTSIDE` names the folder. A handler appends to `<name>.jsonl` there before it does anything else; a
file `go-<name>` lets one go on that holds, `die-<name>` makes it kill its process.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from abeyance import PauseAnswer, Retry, ScriptContext, ToolContext, flow, script, step, tool

OUTSIDE = "FLEET_OUTSIDE"


class Order(BaseModel):
    """What a handler is to do: `pause`, `hold` (until it may go on, then pause), `answer` (then return)."""

    model_config = ConfigDict(populate_by_name=True)

    name: str
    does: str = "pause"
    timeout_ms: int = Field(default=3_600_000, alias="timeoutMs")


class Pickup(BaseModel):
    """What another system answers."""

    pickup_id: str = Field(alias="pickupId", pattern=r"^pk_\d+$")


class Anything(RootModel[Any]):
    """Any JSON."""


def outside(name: str) -> Path:
    """A file of the world outside."""
    return Path(os.environ[OUTSIDE]) / name


def note(name: str, **line: object) -> None:
    """One line, in one write: it is there or it isn't."""
    descriptor = os.open(outside(f"{name}.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, json.dumps({**line, "process": os.getpid()}).encode() + b"\n")
    finally:
        os.close(descriptor)


def act(order: Order, ctx: ToolContext) -> bool:
    """Do what the order says; whether to pause."""
    note(order.name, key=ctx.idempotency_key, link=ctx.wait_token.url, attempt=ctx.attempt)
    if outside(f"die-{order.name}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while order.does != "pause" and not outside(f"go-{order.name}").exists():
        if ctx.cancelled:
            note(order.name, cancelled=True)
            break
        time.sleep(0.005)
    return order.does != "answer"


@tool(id="fleet.pickup", pauses=True)
def pickup(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
    """Takes what fits."""
    if act(order, ctx):
        return ctx.pause(timeout_ms=order.timeout_ms, name="the carrier")
    return Pickup(pickupId="pk_0")


@tool(id="fleet.anything", pauses=True)
def anything(order: Order, ctx: ToolContext) -> Anything | PauseAnswer:
    """Takes any JSON."""
    if act(order, ctx):
        return ctx.pause(timeout_ms=order.timeout_ms)
    return Anything("mine")


@tool(id="fleet.look", mutating=False)
def look(order: Order, ctx: ToolContext) -> Anything:
    """Changes nothing, so nothing is recorded before it runs."""
    die(order.name)
    return Anything("looked")


def die(name: str) -> str:
    """Kill this process, if it is to."""
    note(name, died=outside(f"die-{name}").exists())
    if outside(f"die-{name}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@script(id="fleet.fatal")
async def fatal(ctx: ScriptContext, order: Order) -> Anything:
    """A step, or a read-only call, in which the process dies."""
    if order.does == "step":
        return Anything(await ctx.step("die", die, order.name))
    looked: Anything = await ctx.call(look, order)
    return looked


@script(id="fleet.sleep")
async def sleep(ctx: ScriptContext, order: Order) -> Anything:
    """Waits for a time."""
    await ctx.sleep(3600)
    return Anything(1)


strict = flow("fleet.strict", input=Order, steps=[step("pickup", pickup)])
loose = flow("fleet.loose", input=Order, steps=[step("pickup", anything)])
again = flow("fleet.again", input=Order, steps=[step("pickup", pickup, retry=Retry(attempts=2))])
