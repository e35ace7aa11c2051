"""What every store promises of the agenda: claims, renewals, releases."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from abeyance.journal.store import Claim, ClaimRequest, Control, JournalStore
from tests.contract.rows import DEFINITION, HOUR, OTHER_DEFINITION, follow, new_id, start

pytestmark = pytest.mark.anyio

NOW = 1_790_000_000_000_000
SECOND = 1_000_000


def asking(room: int, *, leases: Sequence[UUID] | None = None, **changes: Any) -> ClaimRequest:
    """A request for `room` runs. The leases' numbers decide who gets the odd place: the newest."""
    values = {
        "now": NOW,
        "lease_until": NOW + 60 * SECOND,
        "room": room,
        "lease_ids": leases or [UUID(int=(new_id().int // 3) * 3 + 2) for _ in range(room)],
        "definitions": [DEFINITION],
        **changes,
    }
    return ClaimRequest(**values)


async def add(store: JournalStore, count: int = 1, **changes: Any) -> list[UUID]:
    """So many runs, each due a microsecond after the one before."""
    due = changes.pop("due", NOW - SECOND)
    runs = [start(due=due + number, **changes) for number in range(count)]
    assert all(await store.append(runs))
    return [run.run_id for run in runs]


async def control_of(store: JournalStore, run_id: UUID) -> Control:
    found = await store.read_run(run_id)
    assert found is not None
    return found.control


def runs_of(claims: list[Claim]) -> set[UUID]:
    return {claim.run_id for claim in claims}


class TestClaim:
    async def test_a_claim_leases_the_run_and_makes_it_due_at_the_leases_end(
        self, store: JournalStore
    ) -> None:
        (run,) = await add(store)
        lease = new_id()
        before = await control_of(store, run)

        claims = await store.claim(asking(1, leases=[lease]))

        end = NOW + 60 * SECOND
        assert [Claim(run, lease)] == claims
        assert before._replace(lease_id=lease, lease_until=end, due=end) == await control_of(store, run)

    async def test_nothing_is_due(self, store: JournalStore) -> None:
        await add(store, due=NOW + 1, status="suspended")

        assert [] == await store.claim(asking(5))

    async def test_an_ended_run_is_never_claimed(self, store: JournalStore) -> None:
        (ended,) = await add(store, status="failed")
        first = start(due=None, status="completed")
        await store.append([first])

        # `due` stays behind when a run is cancelled under its worker's lease and the worker dies.
        assert [] == await store.claim(asking(5, hinted=[first.run_id, ended]))

    @pytest.mark.parametrize("status", ["pending", "running", "suspended"])
    async def test_a_due_run_is_claimed_whatever_it_was_doing(self, store: JournalStore, status: str) -> None:
        (run,) = await add(store, status=status, due=NOW)

        assert {run} == runs_of(await store.claim(asking(1)))

    async def test_no_more_than_there_is_room_or_leases_for(self, store: JournalStore) -> None:
        await add(store, 9)

        assert 3 == len(await store.claim(asking(3)))
        assert 2 == len(await store.claim(asking(4, leases=[new_id(), new_id()])))
        assert [] == await store.claim(asking(0))

    async def test_a_run_is_claimed_by_one(self, store: JournalStore, other_store: JournalStore) -> None:
        runs = await add(store, 30)

        claims = await asyncio.gather(
            *(each.claim(asking(10)) for each in (store, other_store, store, other_store))
        )

        claimed = [claim.run_id for each in claims for claim in each]
        assert len(set(claimed)) == len(claimed)
        rest = [claim.run_id for claim in await store.claim(asking(30))]
        assert sorted(runs) == sorted(claimed + rest)

    async def test_a_live_lease_keeps_others_out(self, store: JournalStore) -> None:
        await add(store, due=NOW, lease_id=new_id(), lease_until=NOW + 1)

        assert [] == await store.claim(asking(1))

    async def test_a_lease_that_ended_is_taken_over(self, store: JournalStore) -> None:
        old = new_id()
        (run,) = await add(store, due=NOW, lease_id=old, lease_until=NOW)
        before = await control_of(store, run)

        (claim,) = await store.claim(asking(1))

        assert run == claim.run_id
        assert [False] == await store.append([follow(before)])
        assert [True] == await store.append([follow(before._replace(lease_id=claim.lease_id))])

    async def test_a_definition_that_isnt_loaded_waits_for_its_loader(self, store: JournalStore) -> None:
        (mine,) = await add(store)
        (other,) = await add(store, definition=OTHER_DEFINITION)

        assert {mine} == runs_of(await store.claim(asking(5)))
        assert [] == await store.claim(asking(5, definitions=[]))
        assert {other} == runs_of(await store.claim(asking(5, definitions=[DEFINITION, OTHER_DEFINITION])))

    async def test_after_the_grace_time_anybody_may_look(self, store: JournalStore) -> None:
        await add(store, due=NOW - HOUR + 1, definition=OTHER_DEFINITION)
        (old,) = await add(store, due=NOW - HOUR, definition=OTHER_DEFINITION)

        assert {old} == runs_of(await store.claim(asking(5, grace_micros=HOUR)))


class TestOrderOfClaims:
    async def test_hinted_runs_come_first(self, store: JournalStore) -> None:
        runs = await add(store, 9)

        claims = await store.claim(asking(2, hinted=[runs[4], runs[5]]))

        assert {runs[4], runs[5]} == runs_of(claims)

    async def test_a_hinted_run_is_claimed_if_it_is_ready(self, store: JournalStore) -> None:
        (ready,) = await add(store, due=NOW + HOUR, status="running")
        (asleep,) = await add(store, due=NOW + HOUR, status="suspended")
        (leased,) = await add(store, due=NOW, lease_id=new_id(), lease_until=NOW + 1)
        (foreign,) = await add(store, definition=OTHER_DEFINITION)
        hinted = [asleep, leased, foreign, new_id(), ready, ready]

        assert {ready} == runs_of(await store.claim(asking(5, hinted=hinted)))

    async def test_two_thirds_are_the_newest_ready_and_one_third_the_oldest_due(
        self, store: JournalStore
    ) -> None:
        timers = await add(store, 20, due=NOW - HOUR, status="suspended")
        ready = await add(store, 20)

        claimed = runs_of(await store.claim(asking(9)))

        assert {*ready[-6:], *timers[:3]} == claimed

    async def test_ten_thousand_timers_dont_starve_an_answer(self, store: JournalStore) -> None:
        for _ in range(10):
            await add(store, 100, due=NOW - HOUR, status="suspended")
        (answered,) = await add(store, due=NOW)

        assert answered in runs_of(await store.claim(asking(3)))

    async def test_who_takes_one_run_at_a_time_still_looks_at_the_oldest(self, store: JournalStore) -> None:
        (oldest,) = await add(store, due=NOW - HOUR, status="suspended")
        ready = await add(store, 9)

        claims = [await store.claim(asking(1, leases=[UUID(int=3 * (7 + turn) + turn)])) for turn in range(3)]

        assert {oldest, *ready[-2:]} == {claim.run_id for (claim,) in claims}

    async def test_room_that_one_side_leaves_the_other_takes(self, store: JournalStore) -> None:
        timers = await add(store, 8, due=NOW - HOUR, status="suspended")
        (ready,) = await add(store)

        assert {ready, *timers[:5]} == runs_of(await store.claim(asking(6)))
        assert set(timers[5:]) == runs_of(await store.claim(asking(6)))


class TestRenew:
    async def test_held_leases_are_prolonged_and_lost_ones_named_by_their_absence(
        self, store: JournalStore
    ) -> None:
        await add(store, 2)
        claims = await store.claim(asking(2))
        held = {claim.lease_id for claim in claims}

        assert held == await store.renew([*held, new_id()], NOW + HOUR)

        for claim in claims:
            control = await control_of(store, claim.run_id)
            assert (NOW + HOUR, NOW + 60 * SECOND) == (control.lease_until, control.due)

    async def test_nothing_to_renew(self, store: JournalStore) -> None:
        assert set() == await store.renew([], NOW)

    async def test_a_renewed_lease_outlives_its_first_end(self, store: JournalStore) -> None:
        await add(store)
        (claim,) = await store.claim(asking(1))
        await store.renew([claim.lease_id], NOW + HOUR)

        assert [] == await store.claim(asking(1, now=NOW + HOUR - 1, lease_until=NOW + 2 * HOUR))
        assert claim.run_id in runs_of(await store.claim(asking(1, now=NOW + HOUR)))


class TestRelease:
    async def test_if_nothing_happened_the_run_is_due_when_the_holder_says(self, store: JournalStore) -> None:
        (run,) = await add(store)
        (claim,) = await store.claim(asking(1))

        await store.release(run, claim.lease_id, seen_version=1, due=NOW + HOUR)

        control = await control_of(store, run)
        assert (None, None, NOW + HOUR) == (control.lease_id, control.lease_until, control.due)

    async def test_if_something_happened_the_run_is_due_now(self, store: JournalStore) -> None:
        (run,) = await add(store)
        (claim,) = await store.claim(asking(1))
        held = await control_of(store, run)
        before = await store.now()
        assert [True] == await store.append([follow(held)])

        await store.release(run, claim.lease_id, seen_version=1, due=NOW + 1_000 * HOUR)

        control = await control_of(store, run)
        assert control.lease_id is None
        assert control.due is not None
        assert before - SECOND <= control.due <= await store.now() + SECOND

    async def test_a_lost_lease_releases_nothing(self, store: JournalStore) -> None:
        (run,) = await add(store)
        await store.claim(asking(1))
        held = await control_of(store, run)

        await store.release(run, new_id(), seen_version=1, due=NOW)

        assert held == await control_of(store, run)

    async def test_a_run_that_ended_meanwhile_leaves_the_agenda(self, store: JournalStore) -> None:
        (run,) = await add(store)
        (claim,) = await store.claim(asking(1))
        held = await control_of(store, run)
        assert [True] == await store.append([follow(held, status="cancelled")])

        await store.release(run, claim.lease_id, seen_version=1, due=NOW)

        assert (await control_of(store, run)).due is None
        assert [] == await store.claim(asking(1, now=NOW + HOUR, hinted=[run]))
