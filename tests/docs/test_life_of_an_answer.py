"""`docs/explanation/life-of-an-answer.md`: reply, wait and record, row by row."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest
from pydantic import BaseModel

from abeyance import PauseAnswer, ToolContext, flow, step, tool
from abeyance.engine.definitions import Flow
from abeyance.errors import AnswerInvalidError, WaitTokenClosedError
from abeyance.http.errors import find_row
from abeyance.journal.run import parse_token_id
from tests.support.engine import Deployment, EngineProcess
from tests.support.pages import DOCS, codes, tables

pytestmark = pytest.mark.anyio

PAGE = DOCS / "explanation" / "life-of-an-answer.md"
ROWS = tables(PAGE, "What becomes of it")[0]

ANSWER, OTHER, UNFIT = b'{"pickupId":"pk_7"}', b'{"pickupId":"pk_8"}', b'{"pickupId":7}'
# What a run records whether an answer comes or not.
ORDINARY = frozenset(
    {
        "started",
        "call-started",
        "call-paused",
        "suspended",
        "call-completed",
        "call-failed",
        "completed",
        "failed",
    }
)


class Order(BaseModel):
    """No input."""


class Pickup(BaseModel):
    """What the carrier answers."""

    pickupId: str


@dataclass
class Sender:
    """The carrier: it holds the link, and notes what it is told."""

    process: EngineProcess = field(init=False)
    ship: Flow = field(init=False)
    stays: bool = False
    answers_at_once: bool = False
    told: list[str] = field(default_factory=list)
    handed: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    run_id: UUID = field(init=False)
    url: str = ""
    token_id: str = ""

    def __post_init__(self) -> None:
        """Make a flow of one step that hands the link on; it pauses, perhaps later, or answers by itself."""

        @tool(id="t.pickup", pauses=True)
        async def pickup(order: Order, ctx: ToolContext) -> Pickup | PauseAnswer:
            self.url, self.token_id = ctx.wait_token.url, ctx.wait_token.id
            self.handed.set()
            if self.stays:
                await self.go.wait()
            return Pickup(pickupId="pk_0") if self.answers_at_once else ctx.pause(timeout_ms=60_000)

        self.ship = flow("t.ship", input=Order, steps=[step("pickup", pickup)])

    async def start(self) -> None:
        """Start the run; return once it waits, or once the handler stays with the link handed on."""
        view = await self.process.start(self.ship, wait=not self.stays)
        self.run_id = view.id
        await self.handed.wait()

    async def send(self, value: bytes = ANSWER) -> None:
        """Post an answer to the link."""
        await self._note(self.process.answer(self.url, value))

    async def resume(self) -> None:
        """Answer with the app's key."""
        await self._note(self.process.runs.resume(self.run_id, self.token_id, ANSWER))

    async def finish(self) -> None:
        """Let the handler go on, and the run end."""
        self.go.set()
        await self.process.settled(self.run_id)

    async def recorded(self) -> list[str]:
        """What the run records beyond the ordinary."""
        return [topic for topic in await self.process.topics(self.run_id) if topic not in ORDINARY]

    async def state(self) -> str:
        """What the wait is."""
        named = parse_token_id(self.token_id)
        assert named is not None
        stored = await self.process.store.find_wait(self.run_id, *named)
        assert stored is not None
        return stored.wait.state

    async def _note(self, sending: Awaitable[object]) -> None:
        try:
            await sending
        except (WaitTokenClosedError, AnswerInvalidError) as error:
            row = find_row(type(error))
            state = error.state if isinstance(error, WaitTokenClosedError) else ""
            self.told.append(f"{row.status if row else None} {state}".strip())
        else:
            self.told.append("200")


Scenario = Callable[[Sender, Deployment], Awaitable[list[str]]]


async def while_it_waits(sender: Sender, _: Deployment) -> list[str]:
    await sender.start()
    await sender.send()
    await sender.finish()
    return await sender.recorded()


async def the_same_again(sender: Sender, deployment: Deployment) -> list[str]:
    before = await while_it_waits(sender, deployment)
    await sender.send()
    return (await sender.recorded())[len(before) :]


async def another_one(sender: Sender, deployment: Deployment) -> list[str]:
    before = await while_it_waits(sender, deployment)
    await sender.send(OTHER)
    return (await sender.recorded())[len(before) :]


async def early(sender: Sender, _: Deployment) -> list[str]:
    sender.stays = True
    await sender.start()
    await sender.send()
    return await sender.recorded()


async def early_and_taken(sender: Sender, deployment: Deployment) -> list[str]:
    await early(sender, deployment)
    held = await sender.state()
    await sender.finish()
    assert ("answered", "completed") == (held, await sender.state())
    return await sender.recorded()


async def early_and_again(sender: Sender, deployment: Deployment) -> list[str]:
    before = await early(sender, deployment)
    await sender.send()
    return (await sender.recorded())[len(before) :]


async def early_and_another(sender: Sender, deployment: Deployment) -> list[str]:
    before = await early(sender, deployment)
    await sender.send(OTHER)
    return (await sender.recorded())[len(before) :]


async def early_and_not_needed(sender: Sender, deployment: Deployment) -> list[str]:
    sender.answers_at_once = True
    await early(sender, deployment)
    await sender.finish()
    await sender.send()
    return await sender.recorded()


async def too_late(sender: Sender, deployment: Deployment) -> list[str]:
    await sender.start()
    deployment.world.advance(timedelta(seconds=61))
    await sender.send()
    await sender.finish()
    return await sender.recorded()


async def after_a_cancel(sender: Sender, _: Deployment) -> list[str]:
    await sender.start()
    await sender.process.runs.cancel(sender.run_id)
    await sender.send()
    return await sender.recorded()


async def unfit(sender: Sender, _: Deployment) -> list[str]:
    await sender.start()
    await sender.send(UNFIT)
    return await sender.recorded()


async def with_the_app_s_key(sender: Sender, _: Deployment) -> list[str]:
    await sender.start()
    await sender.resume()
    return await sender.recorded()


# In the page's order.
SCENARIOS: list[Scenario] = [
    while_it_waits, the_same_again, another_one, early, early_and_again, early_and_another,
    early_and_not_needed, too_late, after_a_cancel, unfit, with_the_app_s_key,
]  # fmt: skip


class TestAnswer:
    @pytest.mark.parametrize(
        ("row", "scenario"),
        list(zip(ROWS, SCENARIOS, strict=True)),
        ids=[each.__name__ for each in SCENARIOS],
    )
    async def test_gets_the_reply_and_leaves_the_record_that_the_page_says(
        self, row: list[str], scenario: Scenario, deployment: Deployment
    ) -> None:
        _, reply, state, recorded = row
        sender = Sender()
        async with deployment.process(sender.ship) as process:
            sender.process = process

            found = await scenario(sender, deployment)

            assert reply.replace("`", "").split(", later ")[-1] == sender.told[-1]
            assert "200" == sender.told[0] or len(sender.told) == 1
            assert codes(state) == [await sender.state()]
            assert codes(recorded.split("; with")[0]) == found
            sender.go.set()

    async def test_one_that_is_held_is_taken_with_the_pause(self, deployment: Deployment) -> None:
        """The rest of the row about an answer that comes before the handler has paused."""
        sender = Sender()
        async with deployment.process(sender.ship) as process:
            sender.process = process

            recorded = await early_and_taken(sender, deployment)

        assert codes(ROWS[3][3]) == recorded
