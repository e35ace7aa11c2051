"""Changes of open waits on both stores: extended, their links rotated or revoked, and refusals."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from abeyance import PauseAnswer, Retry, ScriptContext, ToolContext, flow, script, step, tool
from abeyance.engine.executor import Limits
from abeyance.errors import (
    AnswerInvalidError,
    BadInputError,
    RunNotFoundError,
    WaitChangeNotSupportedError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
    WaitTokenNotReachedError,
)
from abeyance.journal.events import LinkRotated, WaitTokenExtended
from abeyance.world import to_micros
from tests.support.carrier import (
    Carrier,
    Empty,
    Loose,
    Strict,
    closed_state,
    expire_leases,
    hanging,
    lose_worker,
    one_step,
    pausing,
)
from tests.support.engine import Deployment, EngineProcess
from tests.support.standing import assert_rows_follow
from tests.support.wait_changes import CHANGES, HOUR, called, change, paused, token_of, waiting

pytestmark = pytest.mark.anyio


async def is_dead(process: EngineProcess, url: str) -> bool:
    """Whether a link answers as one that never was, whatever is sent to it."""
    token, dead = url.rsplit("/", 2)[1], 0
    for value in (b"1", b'{"no":"fit"}'):
        with pytest.raises(WaitTokenNotFoundError):
            await (await process.runs.open_link(token)).answer(value)
        dead += 1
    for method in ("confirm", "ask"):
        with pytest.raises(WaitTokenNotFoundError):
            await getattr(await process.runs.open_link(token), method)()
        dead += 1
    return dead == 4


class TestRotate:
    async def test_the_new_link_answers_and_the_old_one_is_unknown_in_every_process(
        self, deployment: Deployment
    ) -> None:
        """Also in the process that holds the run in memory, and in one that knew the link before."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Strict))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            run_id, wait = await waiting(one, ship)
            for process in (one, two):
                with pytest.raises(AnswerInvalidError):
                    await process.answer(carrier.urls[0], b"1")

            changed, link = await two.waits.rotate(run_id, wait, actor="ops")

            assert ("waiting", 1) == (changed.state, changed.links)
            assert await is_dead(one, carrier.urls[0])
            assert await is_dead(two, carrier.urls[0])
            await one.answer(link, b'{"pickupId":"pk_7"}')
            assert "completed" == (await one.settled(run_id)).status
            rotated = (await one.history(run_id))[4].event
            assert isinstance(rotated, LinkRotated)
            assert ("ops", wait) == (rotated.actor, rotated.wait)
            await assert_rows_follow(deployment.store, one.desk)

    async def test_the_run_still_waits_as_before(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            view = await process.start(ship)

            await process.waits.rotate(view.id, token_of(view).token_id)

            after = await process.runs.get(view.id)
            assert ("suspended", token_of(view)) == (after.status, token_of(after))

    async def test_only_the_newest_of_many_works(self, deployment: Deployment) -> None:
        """Asked for at once, from two processes: each gets a link, the last one decided works."""
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            run_id, wait = await waiting(one, ship)

            both = [process.waits.rotate(run_id, wait) for process in (one, two, one, two)]
            links = [link for _, link in await asyncio.gather(*both)]

            dead = []
            for link in links:
                token = link.rsplit("/", 2)[1]
                try:
                    await (await one.runs.open_link(token)).confirm()
                except WaitTokenNotFoundError:
                    dead.append(link)
            assert 3 == len(dead)
            (alive,) = set(links) - set(dead)
            await two.answer(alive, b"1")
            assert b"1" in ((await two.settled(run_id)).output or b"")
            await assert_rows_follow(deployment.store, one.desk)

    async def test_all_links_of_reruns_die(self, deployment: Deployment) -> None:
        carrier = Carrier()
        run_id = await lose_worker(deployment, one_step(hanging(carrier)), carrier, None)
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            expire_leases(deployment)
            view = await process.settled(run_id, "suspended")
            wait = token_of(view).token_id
            assert 2 == (await process.waits.get(run_id, wait)).links

            _, link = await process.waits.rotate(run_id, wait)

            for url in carrier.urls:
                assert await is_dead(process, url)
            await process.answer(link, b"1")

    async def test_a_rerun_afterwards_makes_a_fresh_link_that_works_beside_it(
        self, deployment: Deployment
    ) -> None:
        carrier = Carrier()
        run_id = await lose_worker(deployment, one_step(hanging(carrier)), carrier, None)
        ship = one_step(pausing(carrier))
        async with deployment.process(ship, loops=False) as operator:
            _, link = await operator.waits.rotate(run_id, await called(operator, run_id))
        async with deployment.process(ship) as process:
            expire_leases(deployment)
            view = await process.settled(run_id, "suspended")

            assert await is_dead(process, carrier.urls[0])
            assert 2 == (await process.waits.get(run_id, token_of(view).token_id)).links
            await process.answer(carrier.urls[1], b"1")
            await process.settled(run_id)
            await process.answer(link, b"1")
            assert "completed" == await closed_state(process, link)

    async def test_a_retry_has_a_wait_of_its_own(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier, timeout_ms=60_000), retry=Retry(attempts=2, delay_ms=1))
        async with deployment.process(ship) as process:
            run_id, wait = await waiting(process, ship)
            _, link = await process.waits.rotate(run_id, wait)
            deployment.world.advance(timedelta(seconds=61))
            await carrier.was_handed(2)
            await process.settled(run_id, "suspended")

            assert "timed-out" == await closed_state(process, link)
            await process.answer(carrier.urls[1], b"1")


class TestRevoke:
    async def test_no_link_works_and_the_apps_key_still_answers(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            run_id, wait = await waiting(one, ship)

            changed = await two.waits.revoke(run_id, wait, actor="ops")

            assert ("waiting", 0) == (changed.state, changed.links)
            assert await is_dead(one, carrier.urls[0])
            assert "suspended" == (await one.runs.get(run_id)).status
            assert "completed" == (await one.runs.resume(run_id, wait, b"1")).status
            await assert_rows_follow(deployment.store, one.desk)

    async def test_a_rotation_afterwards_makes_a_link_again(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            run_id, wait = await waiting(process, ship)
            await process.waits.revoke(run_id, wait)

            _, link = await process.waits.rotate(run_id, wait)

            await process.answer(link, b"1")
            assert "completed" == (await process.settled(run_id)).status


class TestExtend:
    async def test_the_deadline_moves_in_every_row_at_once(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier(), timeout_ms=60_000))
        async with deployment.process(ship, loops=False) as one, deployment.process(ship, loops=False) as two:
            view = await one.start(ship)
            token = token_of(view)
            until = token.times_out_at + HOUR

            changed = await two.waits.extend(view.id, token.token_id, until, actor="ops")

            record = await deployment.store.read_record(view.id)
            assert record is not None
            assert until == changed.due_at == token_of(await one.runs.get(view.id)).times_out_at
            assert to_micros(until) == record.control.due == record.waits[0].wait.due
            extended = (await one.history(view.id))[-1].event
            assert WaitTokenExtended(actor="ops", times_out_at=until, wait=token.token_id) == extended

    async def test_an_extended_wait_is_answered_after_its_old_deadline(self, deployment: Deployment) -> None:
        """Also where the run was held in memory with the old one."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, timeout_ms=60_000))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            view = await one.start(ship)
            token = token_of(view)
            await two.waits.extend(view.id, token.token_id, token.times_out_at + HOUR)
            deployment.world.advance(timedelta(seconds=61))
            await asyncio.sleep(0.1)

            await one.answer(carrier.urls[0], b"1")

            assert "completed" == (await one.settled(view.id)).status
            assert "wait-token-timed-out" not in await one.topics(view.id)

    async def test_the_new_deadline_ends_the_wait(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier(), timeout_ms=3_600_000))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            view = await one.start(ship)
            soon = deployment.world.now() + timedelta(seconds=30)
            await two.waits.extend(view.id, token_of(view).token_id, soon)
            deployment.world.advance(timedelta(seconds=31))

            ended = await one.settled(view.id)

            assert ended.failure is not None
            assert "wait-token-timed-out" == ended.failure.code

    async def test_the_new_deadline_holds_beside_running_work(self, deployment: Deployment) -> None:
        """The lease's holder is told, and fires the earlier deadline itself."""
        carrier, go = Carrier(), asyncio.Event()

        @tool(id="t.slow")
        async def slow(given: Empty) -> Loose:
            await go.wait()
            return Loose(1)

        ship = flow(
            "t.two",
            input=Empty,
            steps=[step("pickup", pausing(carrier, timeout_ms=3_600_000)), step("slow", slow)],
        )
        async with (
            deployment.process(ship) as one,
            deployment.process(ship, limits=Limits(execute=False)) as two,
        ):
            view = await one.start(ship, wait=False)
            await carrier.was_handed(1)
            wait = await paused(one, view.id)

            await two.waits.extend(view.id, wait, deployment.world.now() + timedelta(seconds=20))
            deployment.world.advance(timedelta(seconds=21))

            while "wait-token-timed-out" not in await one.topics(view.id):
                await asyncio.sleep(0.01)
            go.set()
            assert "failed" == (await one.settled(view.id)).status

    async def test_it_stays_within_24_days_of_the_pause(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            token = token_of(view)
            latest = token.created_at + timedelta(days=24)

            with pytest.raises(BadInputError) as caught:
                await process.waits.extend(view.id, token.token_id, latest + timedelta(microseconds=1))
            changed = await process.waits.extend(view.id, token.token_id, latest)

            assert [("/until", "maximum")] == [(each.path, each.rule) for each in caught.value.issues]
            assert latest == changed.due_at

    async def test_it_stays_within_the_runs_time_to_live(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            view = await process.start(ship, ttl_ms=7_200_000)
            wait = token_of(view).token_id

            with pytest.raises(BadInputError):
                await process.waits.extend(view.id, wait, view.expires_at + timedelta(microseconds=1))
            changed = await process.waits.extend(view.id, wait, view.expires_at)

            assert view.expires_at == changed.due_at

    async def test_a_moment_that_has_passed_is_refused(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            run_id, wait = await waiting(process, ship)

            with pytest.raises(BadInputError) as caught:
                await process.waits.extend(run_id, wait, deployment.world.now())

            assert [("/until", "minimum")] == [(each.path, each.rule) for each in caught.value.issues]
            assert ["started", "call-started", "call-paused", "suspended"] == await process.topics(run_id)

    async def test_a_wait_that_the_run_has_not_reached_has_no_deadline(self, deployment: Deployment) -> None:
        carrier = Carrier()
        ship = one_step(hanging(carrier))
        async with deployment.process(ship, limits=Limits(drain_s=0)) as process:
            view = await process.start(ship, wait=False)
            await carrier.was_handed(1)
            until = deployment.world.now() + HOUR

            with pytest.raises(WaitTokenNotReachedError):
                await process.waits.extend(view.id, await called(process, view.id), until)


@pytest.mark.parametrize("what", CHANGES)
class TestRefusals:
    async def test_a_closed_wait_says_how_it_ended(self, deployment: Deployment, what: str) -> None:
        """Completed, timed out, cancelled, unused; whether the run is at hand or not."""
        carrier, states = Carrier(), []
        direct = one_step(_direct(carrier))
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process, deployment.process(direct, loops=False) as other:
            until = deployment.world.now() + HOUR
            runs = [await waiting(process, ship) for _ in range(3)]
            view = await other.start(direct)
            unused = (view.id, await called(other, view.id))
            await process.answer(carrier.urls[0], b"1")
            await process.runs.cancel(runs[1][0])
            deployment.world.advance(timedelta(seconds=61))
            await process.settled(runs[2][0])

            for run_id, wait in (*runs, unused):
                with pytest.raises(WaitTokenClosedError) as caught:
                    await change(process, what, run_id, wait, until + HOUR)
                states.append(caught.value.state)

            assert ["completed", "cancelled", "timed-out", "unused"] == states

    async def test_a_deadline_that_has_passed_is_over_before_anything_says_so(
        self, deployment: Deployment, what: str
    ) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, loops=False) as process:
            run_id, wait = await waiting(process, ship)
            deployment.world.advance(timedelta(seconds=61))

            with pytest.raises(WaitTokenClosedError) as caught:
                await change(process, what, run_id, wait, deployment.world.now() + HOUR)

            assert "timed-out" == caught.value.state

    async def test_a_held_answer_is_the_answer(self, deployment: Deployment, what: str) -> None:
        carrier = Carrier()
        ship = one_step(hanging(carrier))
        async with deployment.process(ship, limits=Limits(drain_s=0)) as process:
            view = await process.start(ship, wait=False)
            await carrier.was_handed(1)
            await process.answer(carrier.urls[0], b"1")
            wait, until = await called(process, view.id), deployment.world.now() + HOUR

            with pytest.raises(WaitTokenClosedError) as caught:
                await change(process, what, view.id, wait, until)

            assert "answered" == caught.value.state
            await process.answer(carrier.urls[0], b"1")

    async def test_what_is_not_there_is_not_found(self, deployment: Deployment, what: str) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            run_id, wait = await waiting(process, ship)
            until = deployment.world.now() + HOUR

            with pytest.raises(RunNotFoundError):
                await change(process, what, UUID(int=1), wait, until)
            for odd in (wait[:-1] + "2", "pause:x:1", "nothing", ""):
                with pytest.raises(WaitTokenNotFoundError):
                    await change(process, what, run_id, odd, until)

    async def test_other_kinds_of_waits_have_no_links(self, deployment: Deployment, what: str) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            run_id, _ = await waiting(process, ship)

            for odd in ("timer:3", "retry:pickup", "code-mismatch", "crash-loop", "approval:1", "signal:x"):
                with pytest.raises(WaitChangeNotSupportedError):
                    await change(process, what, run_id, odd, deployment.world.now() + HOUR)


def _direct(carrier: Carrier) -> object:
    """A tool that hands its link on and answers at once."""

    @tool(id="t.direct", pauses=True)
    def handler(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
        carrier.hand(ctx)
        return Loose("at once")

    return handler


class TestShow:
    async def test_a_wait_is_shown_from_its_call_to_its_end(self, deployment: Deployment) -> None:
        """Open while the handler runs, waiting once it has paused, completed with its time."""
        carrier, go = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def handler(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            await go.wait()
            return ctx.pause(name="the carrier")

        ship = one_step(handler)
        async with deployment.process(ship) as process:
            view = await process.start(ship, wait=False)
            await carrier.was_handed(1)
            wait = await called(process, view.id)
            seen = [await process.waits.get(view.id, wait)]
            go.set()
            await process.settled(view.id, "suspended")
            seen.append(await process.waits.get(view.id, wait))
            await process.answer(carrier.urls[0], b"1")
            await process.settled(view.id)
            seen.append(await process.waits.get(view.id, wait))

        assert ["open", "waiting", "completed"] == [each.state for each in seen]
        assert [None, "the carrier", "the carrier"] == [each.name for each in seen]
        assert [False, True, True] == [each.due_at is not None for each in seen]
        assert [False, False, True] == [each.closed_at is not None for each in seen]
        assert {("token", "t.pause", "pickup", 1)} == {
            (each.kind, each.tool_id, each.node, each.links) for each in seen
        }

    async def test_timers_and_retries_are_shown_by_their_operation(self, deployment: Deployment) -> None:
        @tool(id="t.fails")
        def fails(given: Empty) -> Loose:
            raise RuntimeError

        @script(id="t.sleeps")
        async def sleeps(ctx: ScriptContext, given: Empty) -> Loose:
            await ctx.sleep(3600)
            return Loose(1)

        again = one_step(fails, retry=Retry(attempts=2, delay_ms=3_600_000))
        async with deployment.process(again, sleeps) as process:
            slept = await process.start(sleeps)
            failed = await process.start(again)

            timer = await process.waits.get(slept.id, "timer:1")
            retry = await process.waits.get(failed.id, "retry:pickup")

            assert [("timer", "1", "waiting", None), ("retry", "pickup", "waiting", None)] == [
                (each.kind, each.node, each.state, each.links) for each in (timer, retry)
            ]
            assert timer.due_at == timer.created_at + HOUR
            with pytest.raises(WaitTokenNotFoundError):
                await process.waits.get(slept.id, "timer:2")
            await process.runs.cancel(slept.id)
            assert "cancelled" == (await process.waits.get(slept.id, "timer:1")).state


class TestOvertaken:
    @pytest.mark.parametrize("name", CHANGES)
    async def test_an_answer_between_two_reads_closes_the_wait_for_the_change(
        self, deployment: Deployment, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The wait's row was read while it was open, the run's history when it wasn't any more."""
        carrier = Carrier()
        ship = one_step(pausing(carrier, output=Loose))
        async with deployment.process(ship) as one, deployment.process(ship) as two:
            run_id, wait = await waiting(one, ship)
            find_wait = two.executor.store.find_wait
            overtaken = False

            async def overtake(run: UUID, key: UUID, ordinal: int) -> object:
                nonlocal overtaken
                found = await find_wait(run, key, ordinal)
                if not overtaken:
                    overtaken = True
                    await one.answer(carrier.urls[0], b"1")
                    await one.settled(run_id)
                return found

            monkeypatch.setattr(two.executor.store, "find_wait", overtake)

            with pytest.raises(WaitTokenClosedError) as refused:
                await change(two, name, run_id, wait, deployment.world.now() + HOUR)

            assert ("completed", True) == (refused.value.state, overtaken)
