"""The other system of an engine's tests: tools that hand it their link and pause, and what it is told."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, RootModel

from abeyance import PauseAnswer, Retry, ToolContext, flow, step, tool
from abeyance.engine.definitions import ONCE
from abeyance.engine.executor import Limits
from abeyance.errors import WaitTokenClosedError
from tests.support.engine import Deployment, EngineProcess


class Empty(BaseModel):
    """No input."""


class Loose(RootModel[Any]):
    """Any JSON."""


class Strict(BaseModel):
    """One field, a text."""

    pickupId: str


class Carrier:
    """The outside world: what it was handed, and how often."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.keys: list[str] = []

    def hand(self, ctx: ToolContext) -> None:
        """Take a call's link and its key."""
        self.urls.append(ctx.wait_token.url)
        self.keys.append(ctx.idempotency_key)

    async def was_handed(self, count: int) -> None:
        """Return once `count` links have come."""
        while len(self.urls) < count:
            await asyncio.sleep(0.002)


def pausing(
    carrier: Carrier, *, timeout_ms: int = 60_000, output: type[BaseModel] = Loose, id: str = "t.pause"
) -> Any:
    """A tool that hands its link to `carrier` and pauses."""

    def handler(given: Empty, ctx: ToolContext) -> Any:
        carrier.hand(ctx)
        return ctx.pause(timeout_ms=timeout_ms, name="the carrier")

    handler.__annotations__["return"] = output | PauseAnswer
    return tool(id=id, pauses=True)(handler)


def one_step(pause: Any, *, retry: Retry = ONCE) -> Any:
    """A flow of one step."""
    return flow("t.flow", input=Empty, steps=[step("pickup", pause, retry=retry)])


async def refusal(process: EngineProcess, url: str, value: bytes) -> str | None:
    """The state that the sender is told; `None` if the answer was taken."""
    try:
        await process.answer(url, value)
    except WaitTokenClosedError as error:
        return error.state
    return None


async def closed_state(process: EngineProcess, url: str, value: bytes = b'"late"') -> str:
    """The state that the sender of a refused answer is told."""
    with pytest.raises(WaitTokenClosedError) as caught:
        await process.answer(url, value)
    return caught.value.state


def hanging(carrier: Carrier) -> Any:
    """A tool that hands its link on and never returns."""

    @tool(id="t.pause", pauses=True)
    async def handler(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
        carrier.hand(ctx)
        await asyncio.sleep(3600)
        return ctx.pause()

    return handler


def expire_leases(deployment: Deployment) -> None:
    """Let every lease run out."""
    deployment.world.advance(timedelta(seconds=61))


async def lose_worker(deployment: Deployment, ship: Any, carrier: Carrier, run_id: UUID | None) -> UUID:
    """Start the run, or take it over, and vanish inside its handler without a word."""
    if run_id is not None:
        expire_leases(deployment)
    handed = len(carrier.urls)
    async with deployment.process(ship, limits=Limits(poll_s=0.02, grace_s=0, drain_s=0)) as process:
        if run_id is None:
            run_id = (await process.start(ship, wait=False)).id
        actor = None
        while actor is None or len(carrier.urls) == handed:
            await asyncio.sleep(0.005)
            actor = process.executor.find(run_id)
        for task in list(actor._calls.tasks):
            task.cancel()
        actor.lost = True
        process.executor.actors.clear()
        process.executor.leases.clear()
    return run_id
