"""`Idempotency-Key` over a real engine: one key, one effect, one reply."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from abeyance import ToolContext, flow, script, step, tool
from abeyance.engine.replies import MAX_REPLY_BYTES
from abeyance.engine.scripting import ScriptContext
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import JournalStore
from tests.contract.tenants import put_workspace
from tests.support.barriers import Places
from tests.support.carrier import Carrier, Empty, Loose, Strict, one_step, pausing
from tests.support.engine import Deployment, EngineProcess
from tests.support.keyed_requests import ECHO, Forgetful, api_of, code, count_runs, seen

pytestmark = pytest.mark.anyio

DAY = timedelta(hours=24)


START = b'{"flow":"t.echo","input":"hello"}'


async def paused(process: EngineProcess, ship: Any) -> tuple[str, str]:
    """A run that waits: its path and its wait's id."""
    view = await process.start(ship)
    assert view.waiting_for is not None
    return f"/v1/runs/{view.id}", view.waiting_for.tokens[0].token_id


def answer(token_id: str, value: object) -> bytes:
    return json.dumps({"waitpointId": token_id, "value": value}).encode()


class TestStart:
    async def test_the_same_request_again_is_answered_byte_for_byte_as_before(
        self, deployment: Deployment
    ) -> None:
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            first = await api.post("/v1/runs", START, "k")
            second = await api.post("/v1/runs", START, "k")

            assert 201 == first.status_code
            assert (*seen(first)[:3], None) == seen(first)
            assert (*seen(first)[:3], "true") == seen(second)
            assert 1 == await count_runs(deployment)

    async def test_it_is_replayed_by_another_process_too(self, deployment: Deployment) -> None:
        async with deployment.process(ECHO) as one, api_of(deployment, one) as api:
            first = await api.post("/v1/runs", START, "k")
        async with deployment.process(ECHO) as two, api_of(deployment, two) as api:
            second = await api.post("/v1/runs", START, "k")

        assert (*seen(first)[:3], "true") == seen(second)

    async def test_without_a_key_each_request_counts(self, deployment: Deployment) -> None:
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            for _ in range(2):
                await api.post("/v1/runs", START)

            assert 2 == await count_runs(deployment)

    async def test_white_space_and_the_order_of_members_make_no_other_request(
        self, deployment: Deployment
    ) -> None:
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            first = await api.post("/v1/runs", START, "k")
            second = await api.post("/v1/runs", b'{ "input": "hello", "flow": "t.echo" }', "k")

        assert first.json["id"] == second.json["id"]

    @pytest.mark.parametrize("other", [b'{"flow":"t.echo","input":"bye"}', b'{"flow":"t.nothing"}'])
    async def test_another_body_is_refused(self, deployment: Deployment, other: bytes) -> None:
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            await api.post("/v1/runs", START, "k")

            refused = await api.post("/v1/runs", other, "k")

            assert (409, "idempotency-key-body-mismatch") == code(refused)
            assert 1 == await count_runs(deployment)

    async def test_a_key_belongs_to_workspace_holder_and_path(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        other = b'{"flow":"t.echo","input":"bye"}'
        await put_workspace(deployment.store, "another-workspace", "active")
        async with deployment.process(ECHO, ship) as process, api_of(deployment, process) as api:
            path, _ = await paused(process, ship)

            mine = await api.post("/v1/runs", START, "k")
            theirs = await api.post("/v1/runs", other, "k", holder="another")
            elsewhere = await api.post("/v1/runs", other, "k", holder="another-workspace/app")
            cancelled = await api.post(f"{path}/cancel", key="k")

            replies = (mine, theirs, elsewhere, cancelled)
            assert [201, 201, 201, 200] == [each.status_code for each in replies]
            assert 4 == len({each.json["id"] for each in replies})

    async def test_after_a_day_the_key_is_as_good_as_new(self, deployment: Deployment) -> None:
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            first = await api.post("/v1/runs", START, "k")
            deployment.world.advance(DAY - timedelta(minutes=1))
            replayed = await api.post("/v1/runs", START, "k")
            deployment.world.advance(timedelta(minutes=1))
            again = await api.post("/v1/runs", b'{"flow":"t.echo","input":"bye"}', "k")

        assert first.json["id"] == replayed.json["id"]
        assert (201, True) == (again.status_code, first.json["id"] != again.json["id"])

    @pytest.mark.case("F04")
    @pytest.mark.parametrize(
        ("bad", "refusal"),
        [
            (b'{"flow":"t.nothing"}', (404, "definition-not-found")),
            (b'{"flow":"t.strict","input":{"pickupId":1}}', (400, "input-validation-failed")),
            (b'{"flow":', (400, "bad-input")),
            (b'{"flow":"t.echo","ttlMs":0}', (400, "bad-input")),
        ],
    )
    async def test_a_refusal_does_not_burn_the_key(
        self, deployment: Deployment, bad: bytes, refusal: tuple[int, str]
    ) -> None:
        @tool(id="t.strict")
        def strict(given: Strict) -> Loose:
            return Loose(1)

        picky = flow("t.strict", input=Strict, steps=[step("one", strict)])
        async with deployment.process(ECHO, picky) as process, api_of(deployment, process) as api:
            refused = await api.post("/v1/runs", bad, "k")
            taken = await api.post("/v1/runs", START, "k")

        assert refusal == code(refused)
        assert (201, None) == (taken.status_code, seen(taken)[3])

    async def test_while_the_first_is_under_way_the_second_is_told_to_come_again(
        self, deployment: Deployment
    ) -> None:
        places = Places()
        stop = places.stop("append:", "started")
        async with (
            deployment.process(ECHO, barrier=places) as process,
            api_of(deployment, process) as api,
        ):
            first = asyncio.create_task(api.post("/v1/runs", START, "k"))
            async with stop:
                refused = await api.post("/v1/runs", START, "k")
            replayed = (await first, await api.post("/v1/runs", START, "k"))

        assert (409, "idempotency-key-in-flight") == code(refused)
        assert int(refused.headers["retry-after"]) >= 1
        assert seen(replayed[0])[:3] == seen(replayed[1])[:3]

    @pytest.mark.case("F02")
    async def test_through_two_processes_at_once_one_run_is_started(self, deployment: Deployment) -> None:
        """Both have found the key unused when the first of them writes."""
        for number in range(10):
            one_places, two_places = Places(), Places()
            stops = [each.stop("append:", "started") for each in (one_places, two_places)]
            async with (
                deployment.process(ECHO, barrier=one_places) as one,
                deployment.process(ECHO, barrier=two_places) as two,
                api_of(deployment, one) as first,
                api_of(deployment, two) as second,
            ):
                key = f"k{number}"
                sent = [asyncio.create_task(api.post("/v1/runs", START, key)) for api in (first, second)]
                for stop in stops:
                    await asyncio.wait_for(stop.reached.wait(), 10)
                for stop in stops:
                    stop.go.set()
                replies = await asyncio.gather(*sent)

                assert {201} == {each.status_code for each in replies}
                assert 1 == len({each.json["id"] for each in replies})
                assert [None, "true"] == sorted((seen(each)[3] for each in replies), key=str)
        assert 10 == await count_runs(deployment)

    async def test_a_request_that_waits_for_its_run_waits_again(self, deployment: Deployment) -> None:
        """The first is waiting for the run, in another process, when the second comes."""
        carrier, go = Carrier(), asyncio.Event()

        @tool(id="t.slow")
        async def slow(given: Loose) -> Loose:
            carrier.urls.append("")
            await go.wait()
            return given

        long = flow("t.slow", input=Loose, steps=[step("slow", slow)])
        body = b'{"flow":"t.slow","input":"hello"}'
        async with (
            deployment.process(long) as one,
            deployment.process(long) as two,
            api_of(deployment, one) as first,
            api_of(deployment, two) as second,
        ):
            sent = [asyncio.create_task(first.post("/v1/runs", body, "k"))]
            await carrier.was_handed(1)
            shown = await second.post("/v1/runs", body.replace(b"}", b',"wait":false}'), "k")
            sent.append(asyncio.create_task(second.post("/v1/runs", body, "k")))
            await asyncio.sleep(0.05)
            waits = [each.done() for each in sent]
            go.set()
            replies = await asyncio.gather(*sent)

        assert (409, "idempotency-key-body-mismatch") == code(shown)
        assert [False, False] == waits
        assert [201, 201] == [each.status_code for each in replies]
        assert replies[0].json["id"] == replies[1].json["id"]


class TestLostReply:
    async def test_the_run_that_came_of_it_is_shown_as_it_is_now(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        body = b'{"flow":"t.flow"}'
        async with deployment.process(ship) as process:
            async with api_of(deployment, process, wrap=Forgetful) as api:
                first = await api.post("/v1/runs", body, "k")
            async with api_of(deployment, process) as api:
                second = await api.post("/v1/runs", body, "k")
                token = second.json["waitingFor"]["tokens"][0]["tokenId"]
                await process.runs.resume(UUID(second.json["id"]), token, b'"now"')
                third = await api.post("/v1/runs", body, "k")
                other = await api.post("/v1/runs", b'{"flow":"t.flow","ttlMs":1000}', "k")

            assert seen(first)[:3] == seen(second)[:3]
            assert ("suspended", "true") == (second.json["status"], seen(second)[3])
            assert ("completed", "true") == (third.json["status"], seen(third)[3])
            assert (409, "idempotency-key-body-mismatch") == code(other)
            assert 1 == await count_runs(deployment)

    async def test_a_reply_of_more_than_256_kib_is_not_kept(self, deployment: Deployment) -> None:
        body = json.dumps({"flow": "t.echo", "input": "x" * MAX_REPLY_BYTES}).encode()
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            first = await api.post("/v1/runs", body, "k")
            second = await api.post("/v1/runs", body, "k")

            assert (*seen(first)[:3], "true") == seen(second)
            async with deployment.store.snapshot() as snapshot:
                assert [(None,)] == await snapshot.select("SELECT reply FROM replies")

    async def test_no_reply_is_readable_in_the_store_and_none_outlives_its_runs_key(
        self, deployment: Deployment
    ) -> None:
        body = b'{"flow":"t.echo","input":"CANARY"}'
        async with deployment.process(ECHO) as process:
            async with api_of(deployment, process) as api:
                first = await api.post("/v1/runs", body, "k-CANARY")
            async with deployment.store.snapshot() as snapshot:
                rows = await snapshot.select("SELECT scope, request, reply FROM replies")
            stored = await deployment.store.read_run(UUID(first.json["id"]))
            assert stored is not None
            await deployment.keys.delete([stored.control.key_id])
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            second = await api.post("/v1/runs", body, "k-CANARY")

        assert 1 == len(rows)
        assert all(b"CANARY" not in bytes(value) for row in rows for value in row)
        assert b"CANARY" in first.content
        assert b"CANARY" not in second.content
        assert first.json["id"] == second.json["id"]

    async def test_a_kept_reply_that_was_changed_is_not_sent(self, deployment: Deployment) -> None:
        """Whoever can write to the store makes no answers: the run is shown instead."""
        async with deployment.process(ECHO) as process, api_of(deployment, process) as api:
            first = await api.post("/v1/runs", START, "k")
            await change_replies(deployment.store)
            second = await api.post("/v1/runs", START, "k")

        assert (*seen(first)[:3], "true") == seen(second)


async def change_replies(store: JournalStore) -> None:
    """Change all kept replies."""
    if isinstance(store, SQLiteJournalStore):
        text = "UPDATE replies SET reply = CAST(reply || x'00' AS BLOB)"
        await store.write(lambda cursor: cursor.execute(text).rowcount)
    else:
        assert isinstance(store, PostgresJournalStore)
        await store.fetch(statement("UPDATE replies SET reply = reply || '\\x00'::bytea RETURNING 1"))


class TestResume:
    async def test_the_same_request_again_is_answered_as_before(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process, api_of(deployment, process) as api:
            path, token = await paused(process, ship)
            first = await api.post(f"{path}/resume", answer(token, "yes"), "k")
            second = await api.post(f"{path}/resume", answer(token, "yes"), "k")
            other = await api.post(f"{path}/resume", answer(token, "no"), "k")
            topics = await process.topics(UUID(first.json["id"]))

        assert (200, "completed") == (first.status_code, first.json["status"])
        assert (*seen(first)[:3], "true") == seen(second)
        assert (409, "idempotency-key-body-mismatch") == code(other)
        assert 1 == topics.count("wait-token-completed")

    async def test_a_refused_answer_does_not_burn_the_key(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier(), output=Strict))
        async with deployment.process(ship) as process, api_of(deployment, process) as api:
            path, token = await paused(process, ship)
            refused = await api.post(f"{path}/resume", answer(token, 1), "k")
            taken = await api.post(f"{path}/resume", answer(token, {"pickupId": "pk_7"}), "k")

        assert (400, "wait-token-output-invalid") == code(refused)
        assert (200, None) == (taken.status_code, seen(taken)[3])

    async def test_a_check_takes_nothing_and_uses_no_key(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process, api_of(deployment, process) as api:
            path, token = await paused(process, ship)
            checked = await api.post(f"{path}/resume", answer(token, "yes"), "k", query="check=true")
            taken = await api.post(f"{path}/resume", answer(token, "no"), "k")

        assert ("acceptable", "completed") == (checked.json["status"], taken.json["status"])

    async def test_an_answer_that_was_taken_already_is_kept_under_the_key_too(
        self, deployment: Deployment
    ) -> None:
        """No event comes of it, and yet the key is used: another body is told so."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process, api_of(deployment, process) as api:
            path, token = await paused(process, ship)
            await process.answer(carrier.urls[0], b'"yes"')
            await process.settled(UUID(path.rpartition("/")[2]))
            first = await api.post(f"{path}/resume", answer(token, "yes"), "k")
            second = await api.post(f"{path}/resume", answer(token, "yes"), "k")
            other = await api.post(f"{path}/resume", answer(token, "no"), "k")

        assert (*seen(first)[:3], "true") == seen(second)
        assert (409, "idempotency-key-body-mismatch") == code(other)

    async def test_a_run_that_this_process_is_busy_with_takes_it(self, deployment: Deployment) -> None:
        """The run has a handler under way here and a wait beside it."""
        carrier, go = Carrier(), asyncio.Event()
        pause = pausing(carrier)

        @tool(id="t.slow")
        async def slow(given: Empty) -> Loose:
            await go.wait()
            return Loose("slow")

        @script(id="t.both")
        async def both(ctx: ScriptContext, given: Empty) -> Loose:
            found = await ctx.gather(ctx.call(slow, Empty()), ctx.call(pause, Empty()))
            return Loose([each.root for each in found])

        async with (
            deployment.process(both, slow, pause) as process,
            api_of(deployment, process, wait_s=0.2) as api,
        ):
            view = await process.start(both, wait=False)
            await carrier.was_handed(1)
            while "call-paused" not in await process.topics(view.id):
                await asyncio.sleep(0.005)
            async with deployment.store.snapshot() as snapshot:
                (wait,) = [each for each in await snapshot.waits([view.id]) if each.due is not None]
            body = answer(f"pause:{wait.call_key}:{wait.ordinal}", "yes")
            replies = [await api.post(f"/v1/runs/{view.id}/resume", body, "k") for _ in range(2)]
            go.set()
            ended = await process.settled(view.id)
            topics = await process.topics(view.id)

        assert [200, 200] == [each.status_code for each in replies]
        assert seen(replies[0])[:3] == seen(replies[1])[:3]
        assert b'["slow","yes"]' == ended.output
        assert (1, 0) == (topics.count("wait-token-completed"), topics.count("rerun"))

    async def test_two_requests_at_once_through_two_processes_are_one_answer(
        self, deployment: Deployment
    ) -> None:
        ship = one_step(pausing(Carrier()))
        async with (
            deployment.process(ship) as one,
            deployment.process(ship) as two,
            api_of(deployment, one) as first,
            api_of(deployment, two) as second,
        ):
            for number in range(10):
                path, token = await paused(one, ship)
                bodies = [answer(token, "yes"), answer(token, "no" if number % 2 else "yes")]
                replies = await asyncio.gather(
                    *(
                        api.post(f"{path}/resume", body, "k")
                        for api, body in zip((first, second), bodies, strict=True)
                    )
                )
                topics = await one.topics(UUID(path.rpartition("/")[2]))

                assert 1 == topics.count("wait-token-completed")
                if number % 2:
                    assert [200, 409] == sorted(each.status_code for each in replies)
                    refused = next(each for each in replies if each.status_code == 409)
                    assert "idempotency-key-body-mismatch" == code(refused)[1]
                else:
                    assert [200, 200] == [each.status_code for each in replies]


class TestCancel:
    async def test_the_same_request_again_is_answered_as_before(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process, api_of(deployment, process) as api:
            path, _ = await paused(process, ship)
            first = await api.post(f"{path}/cancel", key="k")
            second = await api.post(f"{path}/cancel", b"{}", "k")
            other = await api.post(f"{path}/cancel", key="another")

        assert (200, "cancelled") == (first.status_code, first.json["status"])
        assert (*seen(first)[:3], "true") == seen(second)
        assert (409, "run-already-terminal") == code(other)

    async def test_two_requests_at_once_through_two_processes_both_see_it_cancelled(
        self, deployment: Deployment
    ) -> None:
        ship = one_step(pausing(Carrier()))
        async with (
            deployment.process(ship) as one,
            deployment.process(ship) as two,
            api_of(deployment, one) as first,
            api_of(deployment, two) as second,
        ):
            for _ in range(10):
                path, _ = await paused(one, ship)
                replies = await asyncio.gather(
                    *(api.post(f"{path}/cancel", key="k") for api in (first, second))
                )
                topics = await one.topics(UUID(path.rpartition("/")[2]))

                assert [200, 200] == [each.status_code for each in replies]
                assert 1 == topics.count("cancelled")

    async def test_a_handler_under_way_here_is_told(self, deployment: Deployment) -> None:
        begun, told = asyncio.Event(), asyncio.Event()

        @tool(id="t.patient")
        async def patient(given: Loose, ctx: ToolContext) -> Loose:
            begun.set()
            while not ctx.cancelled:
                await asyncio.sleep(0.002)
            told.set()
            return given

        long = flow("t.patient", input=Loose, steps=[step("one", patient)])
        async with deployment.process(long) as process, api_of(deployment, process) as api:
            view = await process.start(long, wait=False)
            await asyncio.wait_for(begun.wait(), 10)
            cancelled = await api.post(f"/v1/runs/{view.id}/cancel", key="k")
            await asyncio.wait_for(told.wait(), 10)

        assert "cancelled" == cancelled.json["status"]
