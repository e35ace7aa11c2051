"""Keyed requests in any order, through several processes, with replies that are lost."""

import asyncio
import json
from datetime import timedelta
from random import Random

import pytest

from tests.support.engine import Deployment
from tests.support.keyed_requests import ECHO, Api, Forgetful, api_of, count_runs, rows_of

pytestmark = pytest.mark.anyio
DAY = timedelta(hours=24)
START = b'{"flow":"t.echo","input":"hello"}'


class TestInterleavings:
    async def test_one_key_has_at_most_one_effect_whatever_is_lost(
        self, deployment: Deployment, seed: int
    ) -> None:
        """Three processes, one of which loses all its replies; requests in any order, clients that go."""
        random = Random(seed)
        async with (
            deployment.process(ECHO) as one,
            deployment.process(ECHO) as two,
            api_of(deployment, one) as a,
            api_of(deployment, two) as b,
            api_of(deployment, one, wrap=Forgetful) as c,
        ):
            bodies = [json.dumps({"flow": "t.echo", "input": number}).encode() for number in range(2)]
            asked = [(f"k{key}", body) for key in range(6) for body in bodies for _ in range(4)]
            random.shuffle(asked)

            async def ask(api: Api, key: str, body: bytes) -> tuple[str, int, str | None] | None:
                sent = asyncio.create_task(api.post("/v1/runs", body, key))
                if random.random() < 0.2:
                    await asyncio.sleep(random.random() * 0.02)
                    sent.cancel()
                try:
                    reply = await sent
                except asyncio.CancelledError:
                    return None
                return key, reply.status_code, reply.json.get("id")

            found = await asyncio.gather(*(ask(random.choice((a, b, c)), *each) for each in asked))
            last = [await a.post("/v1/runs", body, f"k{key}") for key in range(6) for body in bodies]

        runs: dict[str, set[str | None]] = {}
        for key, status, run_id in filter(None, found):
            assert status in (201, 202, 409)
            if status != 409:
                runs.setdefault(key, set()).add(run_id)
        assert {1} == {len(ids) for ids in runs.values()}
        assert [201, 409] * 6 == [
            status
            for pair in range(6)
            for status in sorted(each.status_code for each in last[2 * pair : 2 * pair + 2])
        ]
        assert 6 == await count_runs(deployment)
        assert await rows_of(deployment.store).remove_expired(0, 10) == 0
