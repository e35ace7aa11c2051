"""Workspaces and projects in the store: states and their events change together, and runs are found."""

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from abeyance.bootstrap.tenants import tenant_rows
from abeyance.journal.api_keys import StreamAppend
from abeyance.journal.store import EventRow, JournalStore
from abeyance.journal.tenancy import WHOLE, Change, FoundRuns, Place, Sweep, Tenant, TenantRow, TenantStore
from tests.contract.rows import follow, start

pytestmark = pytest.mark.anyio

STREAM = uuid4()


@pytest.fixture
def tenants(store: JournalStore) -> TenantStore:
    return tenant_rows(store)


def events(number: int, stream: UUID = STREAM) -> StreamAppend:
    """The event of version `number`."""
    return StreamAppend(stream, number - 1, [EventRow(stream, number, "workspace-created", b"%d" % number)])


def change(
    seen: str | None, state: str, *, project: str = WHOLE, moment: int = 5, sweeps: bool = False
) -> Change:
    return Change("shop", project, seen, state, moment, sweeps)


async def all_runs(tenants: TenantStore, workspace: str, project: str = WHOLE, scan: int = 2) -> set[UUID]:
    found, place = set[UUID](), Place()
    while True:
        page: FoundRuns = await tenants.unfinished(workspace, project, place, scan)
        found |= set(page.runs)
        if page.next is None:
            return found
        place = page.next


class TestChange:
    async def test_a_state_and_its_event_go_in_together(
        self, tenants: TenantStore, store: JournalStore
    ) -> None:
        assert await tenants.change(change(None, "active"), events(1))

        assert TenantRow("shop", WHOLE, "active", 5, 5) == await tenants.get("shop")
        rows, _ = await store.read_events(STREAM, after=0, limit=9, contents=False)
        assert [1] == [row.version for row in rows]

    async def test_a_stream_that_moved_on_changes_nothing(
        self, tenants: TenantStore, store: JournalStore
    ) -> None:
        await tenants.change(change(None, "active"), events(1))

        assert not await tenants.change(change("active", "suspended"), events(1))

        row = await tenants.get("shop")
        assert row is not None
        assert "active" == row.state

    @pytest.mark.parametrize("seen", [None, "suspended", "closing"])
    async def test_a_state_that_is_another_one_leaves_the_stream_as_it_was(
        self, tenants: TenantStore, store: JournalStore, seen: str | None
    ) -> None:
        await tenants.change(change(None, "active"), events(1))

        assert not await tenants.change(change(seen, "suspended"), events(2))

        rows, _ = await store.read_events(STREAM, after=0, limit=9, contents=False)
        assert 1 == len(rows)

    async def test_of_two_changes_at_once_one_wins(
        self, tenants: TenantStore, other_store: JournalStore
    ) -> None:
        await tenants.change(change(None, "active"), events(1))
        others = tenant_rows(other_store)

        won = await asyncio.gather(
            *(each.change(change("active", "suspended"), events(2)) for each in (tenants, others))
        )

        assert [False, True] == sorted(won)

    async def test_a_project_keeps_when_it_was_made(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "active", project="web"), events(1))
        await tenants.change(change("active", "suspended", project="web", moment=9), events(2))

        assert TenantRow("shop", "web", "suspended", 5, 9) == await tenants.get("shop", "web")
        assert await tenants.get("shop") is None

    async def test_names_come_in_their_order_page_by_page(self, tenants: TenantStore) -> None:
        for number, name in enumerate(("b", "a-b", "a.b", "a", "ab", "a0"), 1):
            await tenants.change(Change("shop", name, None, "active", 1, False), events(number))

        first = [row.project for row in await tenants.page("shop", "", 4)]
        rest = [row.project for row in await tenants.page("shop", first[-1], 4)]

        assert sorted(["b", "a-b", "a.b", "a", "ab", "a0"]) == first + rest


class TestLookUp:
    async def test_nothing_is_there_and_active(self, tenants: TenantStore) -> None:
        assert Tenant(False, False, "active") == await tenants.look_up("shop", "web")

    async def test_both_are_there_and_the_project_is_suspended(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "active"), events(1))
        await tenants.change(change(None, "suspended", project="web"), events(2))

        assert Tenant(True, True, "project-suspended") == await tenants.look_up("shop", "web")
        assert Tenant(True, False, "active") == await tenants.look_up("shop", "other")


class TestSweep:
    async def test_whoever_suspends_leaves_a_sweep_that_one_takes(
        self, tenants: TenantStore, other_store: JournalStore
    ) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))
        others = tenant_rows(other_store)

        taken = await asyncio.gather(*(each.take_sweep(10, 20) for each in (tenants, others)))

        assert [Sweep("shop", WHOLE, 5, 20, None)] == [each for each in taken if each is not None]

    async def test_a_sweep_whose_holder_died_is_taken_again(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))
        await tenants.take_sweep(10, 20)

        assert await tenants.take_sweep(19, 30) is None
        assert await tenants.take_sweep(20, 30) is not None

    async def test_who_lost_a_sweep_can_neither_hold_nor_end_it(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))
        lost = await tenants.take_sweep(10, 20)
        assert lost is not None
        await tenants.take_sweep(20, 30)

        await tenants.end_sweep(lost)

        assert await tenants.put_back(lost, 40, None) is None
        assert await tenants.take_sweep(30, 40) is not None

    async def test_a_tenant_is_swept_once_a_search_found_nothing(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))
        before = await tenants.is_swept("shop", WHOLE)
        sweep = await tenants.take_sweep(10, 20)
        assert sweep is not None

        await tenants.put_back(sweep, 30, 12)

        assert (False, True) == (before, await tenants.is_swept("shop", WHOLE))

    async def test_a_restored_tenant_is_swept_no_more(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))

        await tenants.change(change("suspended", "active"), events(2))

        assert await tenants.take_sweep(99, 100) is None

    async def test_who_suspends_again_has_all_runs_searched_again(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))
        sweep = await tenants.take_sweep(10, 20)
        assert sweep is not None
        await tenants.put_back(sweep, 30, 12)

        await tenants.change(change("suspended", "closing", moment=15, sweeps=True), events(2))

        assert Sweep("shop", WHOLE, 15, 50, None) == await tenants.take_sweep(15, 50)

    async def test_an_ended_sweep_is_gone(self, tenants: TenantStore) -> None:
        await tenants.change(change(None, "suspended", sweeps=True), events(1))
        sweep = await tenants.take_sweep(10, 20)
        assert sweep is not None

        await tenants.end_sweep(sweep)

        assert await tenants.take_sweep(99, 100) is None


class TestIfActive:
    async def test_what_asks_for_it_is_stored_only_while_the_tenant_is_active(
        self, tenants: TenantStore, store: JournalStore
    ) -> None:
        """In one batch with what doesn't ask."""
        asking, plain, other = start(workspace="shop"), start(workspace="shop"), start(workspace="bank")
        await store.append([asking, plain, other])
        await tenants.change(change(None, "suspended"), events(1))

        won = await store.append(
            [
                replace(follow(asking.control), if_active=True),
                follow(plain.control),
                replace(follow(other.control), if_active=True),
            ]
        )

        assert [False, True, True] == won
        stored = await store.read_run(asking.run_id)
        assert stored is not None
        assert asking.control == stored.control


class TestUnfinished:
    async def test_every_unfinished_run_of_a_tenant_is_found_and_no_other(
        self, tenants: TenantStore, store: JournalStore
    ) -> None:
        mine = [
            start(workspace="shop", project=project, status=status, due=due)
            for project in ("web", "app")
            for status, due in (("pending", 1), ("running", 1), ("suspended", 1), ("suspended", 7))
        ]
        others = [
            start(workspace="bank", project="web", status="suspended", due=3),
            start(workspace="shop", project="web", status="cancelled", due=None),
        ]
        await store.append([*mine, *others])

        assert {run.run_id for run in mine} == await all_runs(tenants, "shop")
        assert {run.run_id for run in mine[:4]} == await all_runs(tenants, "shop", "web")

    async def test_runs_that_are_due_at_one_moment_are_all_found(
        self, tenants: TenantStore, store: JournalStore
    ) -> None:
        runs = [start(workspace="shop", status="suspended", due=4) for _ in range(7)]
        await store.append(runs)

        assert {run.run_id for run in runs} == await all_runs(tenants, "shop", scan=3)
