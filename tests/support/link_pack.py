"""A pack whose handlers do what their input says, and tell a folder what they were given.

`FLEET_OUTSIDE` names the folder. A handler appends to `<name>.jsonl` there before it does anything else. A
file `go-<name>` lets one go on that holds; `die-<name>` says how many of the first ones kill their process.
"""

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

from abeyance import PauseAnswer, Retry, ScriptContext, ToolContext, flow, script, step, tool

OUTSIDE = "FLEET_OUTSIDE"


class Order(BaseModel):
    """What a handler is to do. `pause` at once; or hold until it may go on, and then pause (`hold`), return
    an answer of its own (`answer`), raise at the first attempt (`fail`); or answer its own link, then pause
    (`self`).
    """

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


def perhaps_die(name: str) -> None:
    """Kill this process if it is among the first so many."""
    file = outside(f"die-{name}")
    lines = outside(f"{name}.jsonl").read_text().count("\n")
    if file.exists() and lines <= int(file.read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


def act(order: Order, ctx: ToolContext) -> bool:
    """Do what the order says; whether to pause."""
    note(order.name, key=ctx.idempotency_key, link=ctx.wait_token.url, attempt=ctx.attempt)
    perhaps_die(order.name)
    if order.does == "self":
        answer_own_link(order.name, ctx.wait_token.url)
        return True
    while order.does != "pause" and not outside(f"go-{order.name}").exists():
        if ctx.cancelled:
            note(order.name, cancelled=True)
            break
        time.sleep(0.005)
    if order.does == "fail" and ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return order.does != "answer"


def answer_own_link(name: str, url: str) -> None:
    """Answer before the handler has returned, as a quick carrier does."""
    body, headers = b'{"pickupId":"pk_1"}', {"Content-Type": "application/json"}
    began = time.monotonic()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as reply:
        note(name, status=reply.status, seconds=time.monotonic() - began)


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
    note(name)
    perhaps_die(name)
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
two = flow(
    "fleet.two",
    input=Order,
    steps=[
        step("first", anything),
        step("second", pickup, needs=["first"], input=lambda results: results["input"]),
    ],
)
