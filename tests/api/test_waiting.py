"""How many requests may wait for a run, and what those beyond are told."""

import asyncio

import falcon.testing
import pytest

from abeyance.http import samples
from abeyance.http.authentication import AuthenticationOff
from abeyance.http.resources.waiting import WaitingRequests
from tests.api.fake_runs import LINK, RUN, FakeRuns, api

JSON = {"Content-Type": "application/json"}
RESUME = f'{{"waitpointId":"{samples.TOKEN_ID}"}}'.encode()
START = b'{"flow":"shop.ship-order"}'

pytestmark = pytest.mark.anyio


class Held:
    """Holds calls of `method` until `let_go` is set."""

    def __init__(self, *methods: str) -> None:
        self.methods = methods
        self.arrived = asyncio.Semaphore(0)
        self.let_go = asyncio.Event()

    async def __call__(self, method: str) -> None:
        if method in self.methods:
            self.arrived.release()
            await self.let_go.wait()


class TestWaitingRequests:
    async def test_beyond_the_limit_a_request_answers_at_once_with_the_run_as_it_is(self) -> None:
        held = Held("start", "resume")
        runs = FakeRuns(run=samples.RUNNING, before=held)
        app = api(runs, auth=AuthenticationOff(), max_waiting=2)
        async with falcon.testing.ASGIConductor(app) as client:
            waiting = [
                asyncio.ensure_future(client.simulate_post("/v1/runs", body=START, headers=JSON)),
                asyncio.ensure_future(client.simulate_post(f"{RUN}/resume", body=RESUME, headers=JSON)),
            ]
            for _ in waiting:
                await held.arrived.acquire()

            runs.before = None
            started = await client.simulate_post("/v1/runs", body=START, headers=JSON)
            resumed = await client.simulate_post(f"{RUN}/resume", body=RESUME, headers=JSON)
            gauge = await client.simulate_get("/metrics")
            held.let_go.set()
            await asyncio.gather(*waiting)

        commands = [command for name, command in runs.calls if name == "start"]
        resumes = [arguments for name, arguments in runs.calls if name == "resume"]
        assert [30.0, 0.0] == [command.wait_s for command in commands]
        assert [30.0, 0.0] == [arguments[3] for arguments in resumes]
        assert (202, 200) == (started.status_code, resumed.status_code)
        assert "abeyance_http_waiting_requests 2" in gauge.text.splitlines()

    async def test_nothing_else_waits_for_a_place(self) -> None:
        held = Held("start")
        runs = FakeRuns(before=held)
        app = api(runs, auth=AuthenticationOff(), max_waiting=1)
        async with falcon.testing.ASGIConductor(app) as client:
            waiting = asyncio.ensure_future(client.simulate_post("/v1/runs", body=START, headers=JSON))
            await held.arrived.acquire()

            answers = [
                await client.simulate_post(LINK),
                await client.simulate_get("/health"),
                await client.simulate_get("/ready"),
                await client.simulate_get(RUN),
            ]
            held.let_go.set()
            await waiting

        assert [200] * 4 == [answer.status_code for answer in answers]

    async def test_a_place_is_free_again_after_a_failure(self) -> None:
        places = WaitingRequests(1, 30.0)

        async def fail(_: float) -> None:
            raise LookupError

        for _ in range(3):
            with pytest.raises(LookupError):
                await places.wait(fail)

        assert 0 == places.waiting

    async def test_a_client_that_has_gone_keeps_its_place_until_the_work_is_done(self) -> None:
        """Else a client that comes and goes would make as many waiters as it likes."""
        places = WaitingRequests(1, 30.0)
        begun, go_on = asyncio.Event(), asyncio.Event()
        allowed: list[float] = []

        async def work(wait_s: float) -> None:
            allowed.append(wait_s)
            begun.set()
            await go_on.wait()

        request = asyncio.ensure_future(places.wait(work))
        await begun.wait()
        request.cancel()
        await asyncio.wait([request])
        second = asyncio.ensure_future(places.wait(work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        still = places.waiting
        go_on.set()
        await second

        assert request.cancelled()
        assert 1 == still
        assert [30.0, 0.0] == allowed
        assert 0 == places.waiting
