"""The page of a link over a real engine, on both stores: one wait, answered by a form."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import falcon.testing
import pytest
from pydantic import BaseModel, Field

from abeyance import PauseAnswer, ToolContext, tool
from abeyance.console.app import create_app
from abeyance.http.app import HttpServices
from abeyance.http.authentication import AuthenticationOff
from tests.support.carrier import Carrier, Empty, one_step, pausing
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
YES, NO = {"c": "0", "v/~b0/pickupId": "pk_7"}, {"c": "1", "v/~b1/reason": "too far"}


class Confirmed(BaseModel):
    kind: Literal["yes"]
    pickup_id: str = Field(alias="pickupId", pattern=r"^pk_\d+$")


class Declined(BaseModel):
    kind: Literal["no"]
    reason: str


Reply = Annotated[Confirmed | Declined, Field(discriminator="kind")]
REPLY: Any = Reply


class Visitor:
    """Somebody with the page open."""

    def __init__(self, process: EngineProcess, carrier: Carrier) -> None:
        services = HttpServices(runs=process.runs, auth=AuthenticationOff(), world=process.desk.world)
        self._client = falcon.testing.TestClient(create_app(services))
        self._path = f"/w/{carrier.urls[-1].rsplit('/', 2)[1]}"

    async def look(self) -> tuple[int, str]:
        """Open it; status and title."""
        return await self._ask("GET")

    async def send(self, fields: dict[str, str]) -> tuple[int, str]:
        """Press the button; status and title of what comes."""
        return await self._ask("POST", body=urlencode(fields), headers=FORM)

    async def _ask(self, method: str, **more: Any) -> tuple[int, str]:
        async with falcon.testing.ASGIConductor(self._client.app) as conductor:
            result = await conductor.simulate_request(method, self._path, **more)
        return result.status_code, result.text.partition("<title>")[2].partition("</title>")[0]


class TestPage:
    async def test_its_form_answers_the_wait(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=REPLY))
        async with deployment.process(ship) as process:
            run = await process.start(ship)
            visitor = Visitor(process, carrier)

            assert (200, "The carrier") == await visitor.look()
            assert (400, "Error: The carrier") == await visitor.send({"c": "0", "v/~b0/pickupId": "7"})
            assert (400, "Error: The carrier") == await visitor.send({"c": "0"})
            assert "suspended" == (await process.runs.get(run.id)).status
            assert (200, "Your answer was taken") == await visitor.send(YES)
            ended = await process.settled(run.id)

            assert ("completed", b'{"kind":"yes","pickupId":"pk_7"}') == (ended.status, ended.output)
            assert (200, "Your answer was taken") == await visitor.send(YES)
            assert (409, "This has been answered before") == await visitor.send(NO)
            assert (409, "This has been answered before") == await visitor.send({})
            assert (200, "This has been answered") == await visitor.look()

    async def test_an_answer_that_comes_early_is_held(self, deployment: Deployment) -> None:
        """Its name isn't known before the run has reached it."""
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Reply | PauseAnswer:
            carrier.hand(ctx)
            await gate.wait()
            return ctx.pause(name="the carrier")

        ship = one_step(slow)
        async with deployment.process(ship) as process:
            run = await process.start(ship, wait=False)
            await carrier.was_handed(1)
            visitor = Visitor(process, carrier)

            assert (200, "An answer is asked for") == await visitor.look()
            assert (200, "Your answer was taken") == await visitor.send(NO)
            assert (200, "This has been answered") == await visitor.look()
            assert (409, "This has been answered before") == await visitor.send(YES)
            gate.set()

            assert b'{"kind":"no","reason":"too far"}' == (await process.settled(run.id)).output

    @pytest.mark.parametrize("end", ["the time passes", "it is cancelled"])
    async def test_a_wait_that_is_over_takes_no_form(self, deployment: Deployment, end: str) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=REPLY, timeout_ms=3_600_000))
        async with deployment.process(ship) as process:
            run = await process.start(ship)
            visitor = Visitor(process, carrier)
            if end == "the time passes":
                deployment.world.advance(timedelta(hours=2))
                title = "The time to answer has passed"
            else:
                await process.runs.cancel(run.id)
                title = "This is no longer asked for"

            assert (200, title) == await visitor.look()
            assert (409, title) == await visitor.send(YES)

    async def test_a_process_without_the_tool_makes_the_form_of_the_stored_schema(
        self, deployment: Deployment
    ) -> None:
        """Its properties are in another order there; what one process made, the other one reads."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=REPLY))
        output = ship.steps[0].tool.output
        await deployment.store.put_definition(bytes.fromhex(output.digest), output.document)
        async with deployment.process(ship) as process:
            run = await process.start(ship)
            async with deployment.process(loops=False) as other:
                visitor = Visitor(other, carrier)

                assert (200, "The carrier") == await visitor.look()
                assert (200, "Your answer was taken") == await visitor.send(YES)

            assert b'{"kind":"yes","pickupId":"pk_7"}' == (await process.settled(run.id)).output
