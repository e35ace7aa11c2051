"""Batches of appends: they form by themselves, and each append keeps its own verdict."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from abeyance.errors import StoreUnavailableError
from abeyance.journal.append_queue import AppendQueue
from abeyance.journal.store import Append, JournalStore

pytestmark = pytest.mark.anyio


class FakeAppend:
    def __init__(self, run: int, wins: bool = True) -> None:
        self.run_id = UUID(int=run)
        self.wins = wins


class SlowStore:
    """A store whose batches end when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[FakeAppend]] = []
        self.gate = asyncio.Event()
        self.broken = False

    async def append(self, appends: Sequence[Any]) -> list[bool]:
        self.batches.append(list(appends))
        await self.gate.wait()
        if self.broken:
            raise StoreUnavailableError
        return [append.wins for append in appends]


def queue_over(store: SlowStore) -> AppendQueue:
    return AppendQueue(cast(JournalStore, store), in_flight=1)


def send(queue: AppendQueue, *appends: FakeAppend) -> list[asyncio.Task[bool]]:
    return [asyncio.create_task(queue.append(cast(Append, append))) for append in appends]


class TestAppendQueue:
    async def test_what_waits_goes_together_and_each_has_its_own_verdict(self) -> None:
        """The first goes alone, at once; the others as one batch; a loser hurts nobody."""
        store = SlowStore()
        queue = queue_over(store)
        tasks = send(queue, *(FakeAppend(number, wins=number != 2) for number in range(4)))
        await asyncio.sleep(0)
        assert [1] == [len(batch) for batch in store.batches]

        store.gate.set()

        assert [True, True, False, True] == await asyncio.gather(*tasks)
        assert [1, 3] == [len(batch) for batch in store.batches]

    async def test_two_appends_of_one_run_never_share_a_batch(self) -> None:
        """The second is decided by the store after the first, in the order in which they came."""
        store = SlowStore()
        queue = queue_over(store)
        first, *rest = (FakeAppend(0), FakeAppend(1), FakeAppend(1, wins=False), FakeAppend(2))
        tasks = send(queue, first, *rest)
        await asyncio.sleep(0)

        store.gate.set()
        await asyncio.gather(*tasks)

        assert [[first], [rest[0], rest[2]], [rest[1]]] == store.batches

    async def test_a_batch_that_fails_tells_all_of_it_and_the_next_goes_on(self) -> None:
        """Nobody waits for ever, and the room in flight comes back."""
        store = SlowStore()
        store.broken = True
        queue = queue_over(store)
        tasks = send(queue, FakeAppend(0), FakeAppend(1), FakeAppend(2))
        await asyncio.sleep(0)

        store.gate.set()

        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [StoreUnavailableError] * 3 == [type(result) for result in results]
        store.broken = False
        assert await queue.append(cast(Append, FakeAppend(3)))
