"""Workspaces and projects over a real engine, on both stores: what a suspension stops and cancels."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from abeyance import PauseAnswer, ToolContext, flow, step, tool
from abeyance.engine.executor import Limits
from abeyance.errors import (
    BadInputError,
    ProjectNotFoundError,
    ProjectSuspendedError,
    RefusedError,
    TenantClosingError,
    TenantDrainingError,
    TenantStateError,
    TenantSuspendedError,
    WaitTokenClosedError,
    WorkspaceNotFoundError,
)
from abeyance.journal.workspace_streams import workspace_stream
from tests.support.barriers import Places
from tests.support.carrier import Carrier, Empty, Loose, one_step, pausing
from tests.support.engine import SIGNER, Deployment, EngineProcess

pytestmark = pytest.mark.anyio


async def sweep(process: EngineProcess) -> None:
    """Search until nothing is due."""
    while await process.sweeper.sweep():
        pass


async def logged(process: EngineProcess, workspace: str) -> list[tuple[str, Any]]:
    """Topics and data of a workspace's stream, each event's signature and chain checked."""
    rows, _ = await process.store.read_events(workspace_stream(workspace), after=0, limit=100, contents=False)
    found = [process.desk.codec.verify(row, {SIGNER.kid: SIGNER.public_key}) for row in rows]
    chain = [None, *(recorded.digest for recorded in found)]
    assert [recorded.prev for recorded in found] == chain[: len(found)]
    return [(recorded.topic, recorded.event.model_dump(exclude_none=True)) for recorded in found]


async def code_of(process: EngineProcess, url: str, value: bytes = b"1") -> str | None:
    """The code that an answer is refused with; `None` if it was taken."""
    try:
        await process.answer(url, value)
    except RefusedError as error:
        return error.code
    return None


class TestChanges:
    async def test_every_change_is_a_signed_event_with_its_actor(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            tenants = process.tenants
            await tenants.create_workspace("shop", actor="ada")
            await tenants.create_project("shop", "web", actor="bob")
            await tenants.suspend_project("shop", "web", actor="cyd")
            await sweep(process)
            await tenants.restore_project("shop", "web", actor="dan")
            await tenants.suspend_workspace("shop", actor="eve")
            await sweep(process)
            await tenants.restore_workspace("shop", actor="fay")
            await tenants.close_workspace("shop", actor="gus")
            await sweep(process)

            shop, web = {"workspace": "shop"}, {"workspace": "shop", "project": "web"}
            assert [
                ("workspace-created", {"actor": "ada", **shop}),
                ("project-created", {"actor": "bob", **web}),
                ("project-suspended", {"actor": "cyd", **web}),
                ("project-restored", {"actor": "dan", **web}),
                ("workspace-suspended", {"actor": "eve", **shop}),
                ("workspace-restored", {"actor": "fay", **shop}),
                ("workspace-closing", {"actor": "gus", **shop}),
                ("workspace-closed", shop),
            ] == await logged(process, "shop")
            assert "closed" == (await tenants.workspace("shop")).state

    async def test_of_two_suspensions_at_once_one_wins_and_the_other_is_told_the_state(
        self, deployment: Deployment
    ) -> None:
        async with deployment.process(loops=False) as one, deployment.process(loops=False) as two:
            await one.tenants.create_workspace("shop", actor=None)

            told = await asyncio.gather(
                *(each.tenants.suspend_workspace("shop", actor=None) for each in (one, two)),
                return_exceptions=True,
            )

            (refused,) = (each for each in told if isinstance(each, BaseException))
            assert isinstance(refused, TenantStateError)
            assert "suspended" == refused.state
            assert 1 == [topic for topic, _ in await logged(one, "shop")].count("workspace-suspended")

    async def test_default_is_there_without_having_been_made(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            await process.tenants.create_workspace("apple", actor=None)
            await process.tenants.create_workspace("shop", actor=None)

            page = await process.tenants.workspaces(limit=2)
            rest = await process.tenants.workspaces(limit=2, cursor=page.next_cursor)

            names = [[view.workspace for view in each.data] for each in (page, rest)]
            assert [["apple", "default"], ["shop"]] == names
            assert ["default"] == [view.project for view in (await process.tenants.projects("shop")).data]

    async def test_what_is_there_is_not_made_again(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.create_project("shop", "web", actor=None)

            for work in (
                process.tenants.create_workspace("shop", actor=None),
                process.tenants.create_workspace("default", actor=None),
                process.tenants.create_project("shop", "web", actor=None),
                process.tenants.create_project("shop", "default", actor=None),
            ):
                with pytest.raises(TenantStateError):
                    await work

    async def test_what_is_not_there_is_said_so(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            with pytest.raises(WorkspaceNotFoundError):
                await process.tenants.suspend_workspace("shop", actor=None)
            with pytest.raises(WorkspaceNotFoundError):
                await process.tenants.suspend_project("shop", "web", actor=None)
            with pytest.raises(ProjectNotFoundError):
                await process.tenants.suspend_project("default", "web", actor=None)

    async def test_a_closed_workspace_stays_closed(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.close_workspace("shop", actor=None)

            for work in (process.tenants.restore_workspace, process.tenants.suspend_workspace):
                await sweep(process)
                with pytest.raises(TenantStateError, match="closed"):
                    await work("shop", actor=None)
            with pytest.raises(TenantClosingError):
                await process.tenants.create_project("shop", "web", actor=None)

    async def test_the_default_workspace_is_never_closed(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            with pytest.raises(BadInputError):
                await process.tenants.close_workspace("default", actor=None)

    @pytest.mark.parametrize("name", ["", "A", "a b", "-a", "é", "a" * 64, "a\n"])
    async def test_a_name_is_short_and_plain(self, deployment: Deployment, name: str) -> None:
        async with deployment.process(loops=False) as process:
            with pytest.raises(BadInputError):
                await process.tenants.create_workspace(name, actor=None)


class TestStarts:
    async def test_no_run_begins_in_what_is_not_there(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, loops=False) as process:
            with pytest.raises(WorkspaceNotFoundError):
                await process.start(ship, workspace="shop")
            with pytest.raises(ProjectNotFoundError):
                await process.start(ship, project="web")

    async def test_a_run_begins_in_what_was_made(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.create_project("shop", "web", actor=None)

            view = await process.start(ship, workspace="shop", project="web")

            assert "suspended" == view.status

    @pytest.mark.parametrize("execute", [True, False])
    async def test_no_run_begins_where_nothing_goes_on(self, deployment: Deployment, execute: bool) -> None:
        ship = one_step(pausing(Carrier()))
        limits = Limits(execute=execute, poll_s=0.02, grace_s=0)
        async with deployment.process(ship, limits=limits, loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.create_project("default", "web", actor=None)
            await process.tenants.suspend_project("default", "web", actor=None)

            with pytest.raises(ProjectSuspendedError):
                await process.start(ship, project="web", wait=False)
            await process.tenants.suspend_workspace("default", actor=None)
            with pytest.raises(TenantSuspendedError):
                await process.start(ship, wait=False)
            await process.tenants.close_workspace("shop", actor=None)
            with pytest.raises(TenantClosingError):
                await process.start(ship, workspace="shop", wait=False)

    async def test_a_start_that_a_suspension_overtakes_is_refused_by_its_append(
        self, deployment: Deployment
    ) -> None:
        places = Places()
        stop = places.stop("append:", "started")
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, barrier=places) as one, deployment.process(loops=False) as two:
            await two.tenants.create_workspace("shop", actor=None)
            starting = asyncio.create_task(one.start(ship, workspace="shop"))
            async with stop:
                await two.tenants.suspend_workspace("shop", actor=None)

            with pytest.raises(TenantSuspendedError):
                await starting


class TestAnswers:
    @pytest.mark.parametrize(
        ("project", "close", "code"),
        [
            (None, False, "tenant-suspended"),
            (None, True, "tenant-closing"),
            ("web", False, "project-suspended"),
        ],
    )
    async def test_the_link_of_a_waiting_run_says_why_then_that_it_is_cancelled(
        self, deployment: Deployment, project: str | None, close: bool, code: str
    ) -> None:
        """In the process that holds the run in memory as in any other."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as one, deployment.process(ship, loops=False) as two:
            await two.tenants.create_workspace("shop", actor=None)
            await two.tenants.create_project("shop", "web", actor=None)
            view = await one.start(ship, workspace="shop", project="web")
            assert view.waiting_for is not None
            wait_id = view.waiting_for.tokens[0].token_id
            if project is not None:
                await two.tenants.suspend_project("shop", project, actor=None)
            elif close:
                await two.tenants.close_workspace("shop", actor=None)
            else:
                await two.tenants.suspend_workspace("shop", actor=None)

            for process in (one, two):
                assert code == await code_of(process, carrier.urls[0])
                link = await process.runs.open_link(carrier.urls[0].rsplit("/", 2)[1])
                for work in (link.check(b"1"), link.ask(), link.confirm()):
                    with pytest.raises((TenantSuspendedError, TenantClosingError, ProjectSuspendedError)):
                        await work
                with pytest.raises((TenantSuspendedError, TenantClosingError, ProjectSuspendedError)):
                    await process.runs.resume(view.id, wait_id, b"1", wait_s=0)
                with pytest.raises((TenantSuspendedError, TenantClosingError, ProjectSuspendedError)):
                    await process.runs.check_tenant(view.id)

            await sweep(two)
            assert "cancelled" == (await one.runs.get(view.id)).status
            if not close:
                if project is not None:
                    await two.tenants.restore_project("shop", project, actor=None)
                else:
                    await two.tenants.restore_workspace("shop", actor=None)
                for process in (one, two):
                    with pytest.raises(WaitTokenClosedError) as refused:
                        await process.answer(carrier.urls[0], b"1")
                    assert "cancelled" == refused.value.state

    async def test_neither_a_wait_nor_a_parked_run_is_changed_where_nothing_goes_on(
        self, deployment: Deployment
    ) -> None:
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            assert view.waiting_for is not None
            wait_id = view.waiting_for.tokens[0].token_id
            await process.tenants.suspend_workspace("default", actor=None)
            later = deployment.world.now() + timedelta(hours=1)

            for work in (
                process.waits.extend(view.id, wait_id, later),
                process.waits.rotate(view.id, wait_id),
                process.waits.revoke(view.id, wait_id),
                process.runs.retry(view.id),
            ):
                with pytest.raises(TenantSuspendedError):
                    await work

    async def test_an_answer_that_a_suspension_overtakes_is_refused_by_its_append(
        self, deployment: Deployment
    ) -> None:
        """Whether the run is at hand or not: nothing is taken after the suspension's reply."""
        places = Places()
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship, barrier=places) as one, deployment.process(loops=False) as two:
            view = await one.start(ship)
            stop = places.stop("append:", "wait-token-completed")
            answering = asyncio.create_task(code_of(one, carrier.urls[0]))
            async with stop:
                await two.tenants.suspend_workspace("default", actor=None)

            assert "tenant-suspended" == await answering
            assert "wait-token-completed" not in await one.topics(view.id)

    async def test_a_held_answer_is_discarded_by_the_suspension(self, deployment: Deployment) -> None:
        carrier, gate = Carrier(), asyncio.Event()

        @tool(id="t.pause", pauses=True)
        async def slow(given: Empty, ctx: ToolContext) -> Loose | PauseAnswer:
            carrier.hand(ctx)
            await gate.wait()
            return ctx.pause()

        ship = one_step(slow)
        async with deployment.process(ship) as one, deployment.process(ship, loops=False) as two:
            view = await one.start(ship, wait=False)
            while not carrier.urls:
                await asyncio.sleep(0.005)
            await one.answer(carrier.urls[0], b"1")
            await two.tenants.suspend_workspace("default", actor=None)

            same = [await code_of(process, carrier.urls[0]) for process in (one, two)]
            await sweep(two)
            gate.set()

            assert ["tenant-suspended"] * 2 == same
            assert ["wait-token-discarded", "cancelled"] == (await one.topics(view.id))[-2:]


class TestSweep:
    async def test_every_run_of_the_tenant_is_cancelled_and_no_other(self, deployment: Deployment) -> None:
        """More runs than a page holds, waiting ones and one whose handler is at work."""
        inside = asyncio.Event()
        stopped = asyncio.Event()

        @tool(id="t.slow")
        async def slow(given: Empty, ctx: ToolContext) -> Loose:
            inside.set()
            while not ctx.cancelled:
                await asyncio.sleep(0.005)
            stopped.set()
            return Loose(1)

        ship, busy = one_step(pausing(Carrier())), flow("t.busy", input=Empty, steps=[step("work", slow)])
        async with deployment.process(ship, busy) as one, deployment.process(loops=False) as two:
            await two.tenants.create_workspace("shop", actor=None)
            mine = [await one.start(ship, workspace="shop") for _ in range(13)]
            mine.append(await one.start(busy, workspace="shop", wait=False))
            other = await one.start(ship)
            await asyncio.wait_for(inside.wait(), 10)
            await two.tenants.suspend_workspace("shop", actor=None)

            await sweep(two)

            assert {"cancelled"} == {(await two.runs.get(run.id)).status for run in mine}
            assert "suspended" == (await two.runs.get(other.id)).status
            await asyncio.wait_for(stopped.wait(), 10)
            for run in mine:
                (end,) = [each for each in await two.history(run.id) if each.topic == "cancelled"]
                assert {"actor": "workspace-suspended"} == end.event.model_dump()

    async def test_two_processes_at_once_cancel_each_run_once(self, deployment: Deployment) -> None:
        """Also when one still goes on whose sweep another has taken over."""
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as one, deployment.process(ship, loops=False) as two:
            runs = [await one.start(ship) for _ in range(20)]
            await two.tenants.suspend_workspace("default", actor=None)

            await asyncio.gather(sweep(one), sweep(two))

            for run in runs:
                assert 1 == (await one.topics(run.id)).count("cancelled")

    async def test_a_killed_sweep_is_gone_on_with_by_another_process(self, deployment: Deployment) -> None:
        places = Places()
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, barrier=places, loops=False) as one:
            runs = [await one.start(ship) for _ in range(12)]
            await one.tenants.suspend_workspace("default", actor=None)
            stop = places.stop("stored:cancelled" if deployment.hot_runs == 0 else "stored:", "cancelled")
            sweeping = asyncio.create_task(one.sweeper.sweep())
            await asyncio.wait_for(stop.reached.wait(), 10)
            sweeping.cancel()
            stop.go.set()
            one.vanish()

            async with deployment.process(ship, loops=False) as two:
                assert not await two.sweeper.sweep()
                deployment.world.advance(timedelta(seconds=20))
                await sweep(two)

                assert {"cancelled"} == {(await two.runs.get(run.id)).status for run in runs}

    async def test_a_run_that_was_begun_in_the_race_is_caught_by_a_later_search(
        self, deployment: Deployment
    ) -> None:
        """Its append saw the state from before, and was stored after a search that found nothing."""
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.suspend_workspace("shop", actor=None)
            await sweep(process)
            late = await process.start(ship)
            await _move(deployment, late.id, "shop")

            deployment.world.advance(timedelta(seconds=6))
            await sweep(process)

            assert "cancelled" == (await process.topics(late.id))[-1]

    async def test_the_search_ends_once_no_late_run_can_come(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            await process.tenants.suspend_workspace("shop", actor=None)
            await sweep(process)

            deployment.world.advance(timedelta(minutes=3))
            await sweep(process)

            deployment.world.advance(timedelta(days=1))
            assert not await process.sweeper.sweep()

    async def test_nothing_is_restored_before_its_runs_are_cancelled(self, deployment: Deployment) -> None:
        async with deployment.process(loops=False) as process:
            await process.tenants.suspend_workspace("default", actor=None)

            with pytest.raises(TenantDrainingError):
                await process.tenants.restore_workspace("default", actor=None)

            restoring = asyncio.create_task(
                process.tenants.restore_workspace("default", actor=None, wait_s=10)
            )
            await sweep(process)
            assert "active" == (await restoring).state

    async def test_a_run_begins_after_a_restore(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            await process.tenants.suspend_workspace("default", actor=None)
            await sweep(process)
            await process.tenants.restore_workspace("default", actor=None)

            assert "suspended" == (await process.start(ship)).status
            await sweep(process)

    async def test_a_damaged_run_holds_up_no_closing(self, deployment: Deployment) -> None:
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship, limits=Limits(hot_runs=0), loops=False) as process:
            await process.tenants.create_workspace("shop", actor=None)
            run = await process.start(ship, workspace="shop")
            process.vanish()
            await _damage(deployment, run.id)
            await process.tenants.close_workspace("shop", actor=None)

            await sweep(process)

            assert "closed" == (await process.tenants.workspace("shop")).state


async def _execute(deployment: Deployment, lite: str, postgres: str, run_id: Any, value: Any) -> None:
    from abeyance.journal.postgres.wire import statement
    from abeyance.journal.sqlite.store import SQLiteJournalStore

    store = deployment.store
    if isinstance(store, SQLiteJournalStore):
        await store.write(lambda cursor: cursor.execute(lite.format(value), (run_id.bytes,)).rowcount)
    else:
        await store.fetch(statement(postgres.format(value), "uuid"), run_id)  # type: ignore[attr-defined]


async def _move(deployment: Deployment, run_id: Any, workspace: str) -> None:
    text = "UPDATE run_control SET workspace = '{}' WHERE run_id = "
    await _execute(deployment, text + "?", text + "$1", run_id, workspace)


async def _damage(deployment: Deployment, run_id: Any) -> None:
    await _execute(
        deployment,
        "UPDATE journal_events SET state = x'00' WHERE originator_id = lower(hex(?)){}",
        "UPDATE journal_events SET state = '\\x00' WHERE originator_id = $1{}",
        run_id,
        "",
    )
