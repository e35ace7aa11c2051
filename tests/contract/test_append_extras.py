"""What an append minds besides versions and leases: its tenant, idempotency keys, links that it kills."""

import asyncio
from dataclasses import replace

import pytest

from abeyance.journal.store import Append, JournalStore, ReplyRow
from tests.contract.rows import follow, link, new_id, start, wait
from tests.contract.tenants import put_project, put_workspace
from tests.contract.test_agenda import NOW, SECOND, add, asking, runs_of

pytestmark = pytest.mark.anyio

REFUSING = [("suspended", "tenant-suspended"), ("closing", "tenant-closing"), ("closed", "tenant-closing")]


def waiting_run() -> Append:
    """A run with one open wait and two links to it."""
    first = start(events=2)
    links = (link(first.run_id, 2), link(first.run_id, 2))
    return replace(first, waits=(wait(first.run_id, 2),), links=links)


def keyed(append: Append, scope: bytes = b"scope", *, created: int = 1_000, expires: int = 9_000) -> Append:
    return replace(append, reply=ReplyRow(scope, b"request", created, expires))


class TestTenant:
    async def test_a_wait_says_that_its_tenant_is_active(self, store: JournalStore) -> None:
        run = waiting_run()
        await store.append([run])

        found = await store.find_link(run.links[0].digest)

        assert found is not None
        assert "active" == found.tenant

    @pytest.mark.parametrize(("state", "tenant"), REFUSING)
    async def test_a_wait_says_why_its_workspace_refuses(
        self, store: JournalStore, state: str, tenant: str
    ) -> None:
        run = waiting_run()
        await store.append([run])
        await put_workspace(store, "default", state)
        (row,) = run.waits
        assert row.call_key is not None

        by_link = await store.find_link(run.links[0].digest)
        by_token = await store.find_wait(run.run_id, row.call_key, 1)

        assert by_link is not None
        assert (tenant, by_link) == (by_link.tenant, by_token)

    async def test_a_wait_says_that_its_project_is_suspended(self, store: JournalStore) -> None:
        run = waiting_run()
        await store.append([run])
        await put_project(store, "default", "suspended")

        found = await store.find_link(run.links[0].digest)

        assert found is not None
        assert "project-suspended" == found.tenant

    async def test_no_run_is_begun_for_a_tenant_that_is_not_active(self, store: JournalStore) -> None:
        await put_workspace(store, "closed", "closed")
        await put_project(store, "old", "suspended")
        await put_project(store, "new", "active")
        runs = [start(workspace="closed"), start(project="old"), start(project="new"), start()]

        assert [False, False, True, True] == await store.append(runs)
        assert await store.read_run(runs[0].run_id) is None

    async def test_a_run_that_was_begun_can_still_be_written_to(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])
        await put_workspace(store, "default", "suspended")

        assert [True] == await store.append([follow(first.control, status="cancelled", due=None)])

    async def test_nobody_gets_a_run_of_a_tenant_that_is_not_active(self, store: JournalStore) -> None:
        hinted = [*await add(store, workspace="closing"), *await add(store, project="old")]
        (asleep,) = await add(store, workspace="closing", status="suspended", due=NOW - SECOND)
        (other,) = await add(store)
        await put_workspace(store, "closing", "closing")
        await put_project(store, "old", "suspended")

        claims = await store.claim(asking(9, hinted=[*hinted, asleep]))

        assert {other} == runs_of(claims)


class TestDeadLinks:
    async def test_killed_links_are_unknown_and_the_new_one_works(self, store: JournalStore) -> None:
        run = waiting_run()
        await store.append([run])
        fresh = link(run.run_id, 2)
        dead = tuple(old.digest for old in run.links)

        won = await store.append([replace(follow(run.control), dead_links=dead, links=(fresh,))])

        found = [await store.find_link(digest) for digest in (*dead, fresh.digest)]
        assert ([True], [True, True, False]) == (won, [each is None for each in found])

    async def test_a_loser_kills_no_link(self, store: JournalStore) -> None:
        run = waiting_run()
        await store.append([run])
        dead = (run.links[0].digest,)

        won = await store.append([replace(follow(run.control._replace(version=9)), dead_links=dead)])

        assert [False] == won
        assert await store.find_link(dead[0]) is not None

    async def test_another_runs_link_is_not_killed(self, store: JournalStore) -> None:
        mine, other = waiting_run(), waiting_run()
        await store.append([mine, other])
        dead = (other.links[0].digest,)

        await store.append([replace(follow(mine.control), dead_links=dead)])

        assert await store.find_link(dead[0]) is not None


class TestReply:
    async def test_one_key_has_one_effect(self, store: JournalStore) -> None:
        first, second = start(), start()

        verdicts = [await store.append([keyed(each)]) for each in (first, second)]

        assert [[True], [False]] == verdicts
        assert await store.read_run(second.run_id) is None

    async def test_one_key_has_one_effect_in_one_batch(self, store: JournalStore) -> None:
        runs = [keyed(start()), keyed(start()), keyed(start(), b"other")]

        assert [True, False, True] == await store.append(runs)

    async def test_one_key_has_one_effect_at_the_same_time(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        for number in range(20):
            scopes = [b"a%d" % number, b"b%d" % number, b"c%d" % number]
            ours = [keyed(start(), scope) for scope in scopes]
            theirs = [keyed(start(), scope) for scope in reversed(scopes)]

            one, two = await asyncio.gather(store.append(ours), other_store.append(theirs))

            assert [1, 1, 1] == [a + b for a, b in zip(one, reversed(two), strict=True)]

    async def test_a_loser_burns_no_key(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])
        behind = follow(first.control._replace(lease_id=new_id()))

        lost = await store.append([keyed(behind)])
        won = await store.append([keyed(follow(first.control))])

        assert ([False], [True]) == (lost, won)

    async def test_a_key_that_has_expired_is_as_good_as_new(self, store: JournalStore) -> None:
        await store.append([keyed(start(), expires=5_000)])

        early = await store.append([keyed(start(), created=4_999)])
        late = await store.append([keyed(start(), created=5_000)])

        assert ([False], [True]) == (early, late)
