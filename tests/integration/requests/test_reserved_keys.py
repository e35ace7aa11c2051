"""Idempotency keys of routes whose effect isn't a run's append: the key is reserved before it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import falcon.testing
import pytest
from falcon.asgi import Request, Response

from abeyance.engine.replies import MAX_REPLY_BYTES, UsedKey
from abeyance.errors import NotFoundError, PerhapsStoredError, StoreUnavailableError
from abeyance.http.app import Api, HttpServices
from abeyance.http.body import read_json
from abeyance.http.idempotency import Idempotency, Rendered
from tests.api.fake_runs import FakeRuns
from tests.support.engine import Deployment
from tests.support.keyed_requests import Api as Client
from tests.support.keyed_requests import Forgetful, Holders, code, replies_of, seen

pytestmark = pytest.mark.anyio


@dataclass
class Thing:
    """A route with an effect of its own."""

    idempotency: Idempotency
    fails: list[Exception] = field(default_factory=list)
    secret: bool = False
    size: int = 1
    done: int = 0
    go: asyncio.Event | None = None

    async def on_post(self, req: Request, resp: Response) -> None:
        """Do it."""
        await self.idempotency.answer_reserved(req, resp, await read_json(req), self.do)

    async def do(self, key: UsedKey | None) -> Rendered:
        """Count."""
        if self.fails:
            raise self.fails.pop()
        self.done += 1
        if self.go is not None:
            await self.go.wait()
        return Rendered(status=201, body=b'{"done":"%s"}' % (b"x" * self.size), secret=self.secret)


@asynccontextmanager
async def thing(
    deployment: Deployment, wrap: Any = lambda rows: rows, **more: Any
) -> AsyncIterator[tuple[Client, Thing]]:
    services = HttpServices(runs=FakeRuns(), auth=Holders(), world=deployment.world)
    app = Api(services)
    made = Thing(Idempotency(await replies_of(deployment, wrap), app.waiting), **more)
    app.add_route("/v1/things", made)
    async with falcon.testing.ASGIConductor(app) as conductor:
        yield Client(conductor), made


class TestReserved:
    async def test_the_same_request_again_is_answered_as_before(self, deployment: Deployment) -> None:
        async with thing(deployment) as (client, made):
            first, second = [await client.post("/v1/things", b'{"a":1}', "k") for _ in range(2)]
            other = await client.post("/v1/things", b'{"a":2}', "k")

        assert ((*seen(first)[:3], "true"), 1) == (seen(second), made.done)
        assert (409, "idempotency-key-body-mismatch") == code(other)

    async def test_many_at_once_have_one_effect(self, deployment: Deployment) -> None:
        go = asyncio.Event()
        async with thing(deployment, go=go) as (one, first), thing(deployment, go=go) as (two, second):
            sent = [asyncio.create_task(api.post("/v1/things", b"", "k")) for api in (one, two) * 5]
            while sum(each.done() for each in sent) < 9:
                await asyncio.sleep(0.002)
            go.set()
            replies = await asyncio.gather(*sent)

        assert 1 == first.done + second.done
        assert [201] + [409] * 9 == sorted(each.status_code for each in replies)
        refused = [each for each in replies if each.status_code == 409]
        assert {"idempotency-key-in-flight"} == {code(each)[1] for each in refused}
        assert {"1"} == {each.headers["retry-after"] for each in refused}

    @pytest.mark.case("F04")
    @pytest.mark.parametrize("busy", [False, True])
    async def test_a_refusal_frees_the_key(self, deployment: Deployment, busy: bool) -> None:
        error = StoreUnavailableError() if busy else NotFoundError("nothing here")
        async with thing(deployment, fails=[error]) as (client, made):
            refused = await client.post("/v1/things", b'{"a":1}', "k")
            taken = await client.post("/v1/things", b'{"a":2}', "k")

        refusal = (503, "tenant-state-unavailable") if busy else (404, "not-found")
        assert (refusal, 201, 1) == (code(refused), taken.status_code, made.done)

    async def test_a_reply_that_holds_a_secret_is_not_kept(self, deployment: Deployment) -> None:
        async with thing(deployment, secret=True) as (client, made):
            first, second = [await client.post("/v1/things", b"", "k") for _ in range(2)]

        assert (201, 1) == (first.status_code, made.done)
        assert (409, "idempotency-replay-withheld") == code(second)

    async def test_a_reply_of_more_than_256_kib_is_not_kept(self, deployment: Deployment) -> None:
        async with thing(deployment, size=MAX_REPLY_BYTES) as (client, made):
            first, second = [await client.post("/v1/things", b"", "k") for _ in range(2)]

        assert (201, 1) == (first.status_code, made.done)
        assert (409, "idempotency-replay-withheld") == code(second)

    @pytest.mark.parametrize("lost", ["reply", "outcome"])
    async def test_what_became_of_a_lost_process_is_not_tried_again(
        self, deployment: Deployment, lost: str
    ) -> None:
        """It may have done it: for a minute it counts as under way, then its reply counts as not kept."""
        fails: list[Exception] = [PerhapsStoredError()] if lost == "outcome" else []
        async with thing(deployment, Forgetful, fails=fails) as (client, _):
            await client.post("/v1/things", b"", "k")
        async with thing(deployment) as (client, made):
            soon = await client.post("/v1/things", b"", "k")
            deployment.world.advance(timedelta(seconds=60))
            later = await client.post("/v1/things", b"", "k")
            deployment.world.advance(timedelta(hours=24))
            next_day = await client.post("/v1/things", b"", "k")

        assert (409, "idempotency-key-in-flight") == code(soon)
        assert (409, "idempotency-replay-withheld") == code(later)
        assert (201, 1) == (next_day.status_code, made.done)

    async def test_a_client_that_goes_away_loses_its_reply_and_nothing_else(
        self, deployment: Deployment
    ) -> None:
        go = asyncio.Event()
        async with thing(deployment, go=go) as (client, made):
            sent = asyncio.create_task(client.post("/v1/things", b"", "k"))
            while not made.done:
                await asyncio.sleep(0.002)
            sent.cancel()
            go.set()
            await asyncio.gather(sent, return_exceptions=True)
            again = await client.post("/v1/things", b"", "k")
            while again.status_code == 409:
                again = await client.post("/v1/things", b"", "k")

        assert (201, "true", 1) == (again.status_code, seen(again)[3], made.done)
