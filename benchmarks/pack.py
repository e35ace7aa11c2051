"""What the server runs: tools that say what they do in one UNIX datagram each, a flow and a script of them.

The datagram is the effect, so that the effect costs the same as in the floor and next to nothing. Its
text is ``kind run-id rest``. `BENCH_SOCKET` names the socket that takes them. Tools are `async def`, since a
datagram blocks nothing; a plain `def` costs two hand-offs between threads more (see
docs/explanation/performance.md).
"""

import os
import socket
import time
from functools import cache

from pydantic import BaseModel

from abeyance import PauseAnswer, ScriptContext, ToolContext, flow, script, step, tool


class Given(BaseModel):
    """A number, handed through."""

    n: int


class Answer(BaseModel):
    """What the carrier answers."""

    approved: bool
    by: str
    note: str
    n: int


class Steps(BaseModel):
    """How many steps are recorded before the wait."""

    steps: int


@tool(id="bench.before", effects=[{"kind": "external-side-effect", "resource": "external:driver"}])
async def before(given: Given, ctx: ToolContext) -> Given:
    """The side effect before the wait."""
    _tell("before", ctx.run_id, "")
    return given


@tool(id="bench.ask", pauses=True, effects=[{"kind": "external-side-effect", "resource": "external:driver"}])
async def ask(given: Given, ctx: ToolContext) -> Answer | PauseAnswer:
    """Hand the link on, and wait."""
    _tell("link", ctx.run_id, ctx.wait_token.url)
    return ctx.pause(name="the carrier's answer")


@tool(id="bench.after", effects=[{"kind": "external-side-effect", "resource": "external:driver"}])
async def after(answer: Answer, ctx: ToolContext) -> Given:
    """The side effect after the answer; says when it ran (monotonic, in ns)."""
    _tell("after", ctx.run_id, str(time.monotonic_ns()))
    return Given(n=answer.n)


one_answer = flow(
    "bench.one-answer",
    input=Given,
    steps=[
        step("before", before),
        step("ask", ask, needs=["before"]),
        step("after", after, needs=["ask"], input=lambda results: results["ask"]),
    ],
)


@script(id="bench.many-steps")
async def many_steps(ctx: ScriptContext, given: Steps) -> Given:
    """Record steps, then wait for one answer."""
    for number in range(given.steps):
        await ctx.step("double", _double, number)
    answer = await ctx.call(ask, Given(n=given.steps))
    return await ctx.call(after, answer)  # type: ignore[no-any-return] # a call's type is its tool's


def _double(number: int) -> int:
    return 2 * number


@cache
def _socket() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.connect(os.environ["BENCH_SOCKET"])
    return sender


def _tell(kind: str, run_id: str, rest: str) -> None:
    _socket().send(f"{kind} {run_id} {rest}".encode())
