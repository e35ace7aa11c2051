"""What every store promises of workers that are lost, of parked runs, and of workspaces that are passed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from abeyance.journal.store import Append, Claim, JournalStore
from tests.contract.rows import follow, new_id, start, wait
from tests.contract.tenants import put_workspace
from tests.contract.test_agenda import NOW, SECOND, asking, control_of, runs_of

pytestmark = pytest.mark.anyio


async def lose(store: JournalStore, now: int) -> Claim:
    """Claim what is due at `now`, and never come back."""
    (claim,) = await store.claim(asking(1, now=now, lease_until=now + SECOND))
    return claim


class TestLostWorkers:
    async def test_are_counted_while_the_run_stays_as_it_is(self, store: JournalStore) -> None:
        await store.append([start(due=NOW)])

        lost = [(await lose(store, NOW + number * 2 * SECOND)).lost for number in range(6)]

        assert [0, 1, 2, 3, 4, 5] == lost

    async def test_begin_anew_when_something_was_appended(self, store: JournalStore) -> None:
        run = start(due=NOW)
        await store.append([run])
        for number in range(3):
            await lose(store, NOW + number * 2 * SECOND)
        held = await control_of(store, run.run_id)
        assert [True] == await store.append([follow(held)])

        claim = await lose(store, NOW + 10 * SECOND)

        assert 1 == claim.lost

    async def test_a_lease_that_is_given_back_is_no_loss(self, store: JournalStore) -> None:
        run = start(due=NOW)
        await store.append([run])
        for number in range(3):
            claim = await lose(store, NOW + number)
            await store.release(run.run_id, claim.lease_id, seen_version=1, due=NOW)

        assert 0 == (await lose(store, NOW + 10)).lost


class TestPassedWorkspaces:
    async def test_get_nothing(self, store: JournalStore) -> None:
        """Hinted or not, ready or due."""
        assert [] == await store.claim(asking(9, passed=["busy"]))
        await put_workspace(store, "quiet", "active")
        busy = [start(due=NOW, workspace="busy", status=status) for status in ("pending", "suspended")]
        quiet = start(due=NOW, workspace="quiet")
        await store.append([*busy, quiet])

        claims = await store.claim(asking(9, passed=["busy"], hinted=[busy[0].run_id]))

        assert {quiet.run_id} == runs_of(claims)
        assert {run.run_id for run in busy} == runs_of(await store.claim(asking(9)))


def parked(topic: str, *, held: bool = False) -> Append:
    """A run that waits for something without a deadline."""
    lease: dict[str, Any] = {"lease_id": new_id(), "lease_until": NOW + 60 * SECOND} if held else {}
    run = start(due=NOW + 60 * SECOND, status="suspended", **lease)
    event = run.events[0]._replace(topic=topic)
    waits = (wait(run.run_id, 1, call_key=None, ordinal=None, state="waiting"),)
    return Append(0, None, run.control, (event,), waits=waits)


async def due(store: JournalStore, runs: Sequence[Append]) -> list[UUID]:
    """Those that may be claimed now, whoever has their code."""
    found = runs_of(await store.claim(asking(9, definitions=[])))
    return [run.run_id for run in runs if run.run_id in found]


class TestOffer:
    async def test_makes_runs_due_that_wait_for_other_code(self, store: JournalStore) -> None:
        """At the moment that is asked for, for whoever comes; others and held ones stay as they are."""
        mismatch, held = parked("code-mismatch"), parked("code-mismatch", held=True)
        looping, sleeping = parked("crash-loop"), start(due=NOW + 60 * SECOND, status="suspended")
        runs = [mismatch, held, looping, sleeping]
        await store.append(runs)

        offered = await store.offer(NOW - 60 * SECOND)

        assert 1 == offered
        assert NOW - 60 * SECOND == (await control_of(store, mismatch.run_id)).due
        assert [mismatch.run_id] == await due(store, runs)

    async def test_makes_the_runs_due_that_are_named(self, store: JournalStore) -> None:
        """Not one that is due before, nor one that has ended."""
        later, sooner = start(due=NOW + 60 * SECOND), start(due=NOW - 90 * SECOND)
        ended = start(due=None, status="completed")
        await store.append([later, sooner, ended])

        offered = await store.offer(NOW - 60 * SECOND, [run.run_id for run in (later, sooner, ended)])

        assert 1 == offered
        assert NOW - 90 * SECOND == (await control_of(store, sooner.run_id)).due
        assert None is (await control_of(store, ended.run_id)).due
