"""The limit of one process's requests: what is drawn, what is answered from memory, and what a fault does."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from abeyance.errors import RateLimitedError, StoreUnavailableError
from abeyance.http.rate_limit import RateLimiter
from abeyance.journal.permits import Draw, Drawn, MemoryPermits, Settled

pytestmark = pytest.mark.anyio
CLIENT = b"a client"


@dataclass
class Clock:
    """A world whose monotonic clock a test sets."""

    seconds: float = 1_000.0
    asked: int = 0

    def monotonic(self) -> float:
        return self.seconds

    def random_bytes(self, count: int) -> bytes:
        self.asked += 1
        return self.asked.to_bytes(count)


@dataclass
class Store:
    """One count, as every process reaches it; `fails` says how it doesn't."""

    clock: Clock
    draws: list[Draw] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    fails: Exception | None = None
    hangs: bool = False

    def __post_init__(self) -> None:
        self.permits = MemoryPermits(lambda: int(self.clock.seconds * 1_000_000))

    async def draw(self, draw: Draw) -> Drawn:
        self.draws.append(draw)
        await asyncio.sleep(0)
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails is not None:
            raise self.fails
        return await self.permits.draw(draw)

    async def settle(self, blocks: Sequence[Settled]) -> None:
        if self.fails is not None:
            raise self.fails
        self.settled += blocks
        await self.permits.settle(blocks)

    async def forget(self) -> None:
        await self.permits.forget()

    async def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(clock)


def limiter(store: Store, limit: int = 600, **more: int) -> RateLimiter:
    return RateLimiter(store, store.clock, limit, **more)  # type: ignore[arg-type] # of a world, its clock


async def passes(limiter: RateLimiter, key: bytes = CLIENT) -> bool:
    try:
        await limiter.admit(key)
    except RateLimitedError:
        return False
    return True


async def wait_told(limiter: RateLimiter, key: bytes = CLIENT) -> int:
    with pytest.raises(RateLimitedError) as refused:
        await limiter.admit(key)
    return refused.value.retry_after_s


class TestOneProcess:
    @pytest.mark.case("F10")
    async def test_600_pass_and_the_next_one_is_told_when(self, clock: Clock, store: Store) -> None:
        process = limiter(store)
        passed = 0
        for number in range(1, 601):
            passed += await passes(process)
            clock.seconds = 1_000 + number / 64

        assert 600 == passed
        told = await wait_told(process)
        assert 51 == told  # the first one's minute ends 50.6 s from now
        clock.seconds += told
        assert await passes(process)

    @pytest.mark.case("F10")
    async def test_the_wait_is_a_second_at_least_and_a_minute_at_most(
        self, clock: Clock, store: Store
    ) -> None:
        process = limiter(store, 10)
        await asyncio.gather(*(passes(process) for _ in range(10)))

        assert 60 == await wait_told(process)
        clock.seconds += 59.9
        assert 1 == await wait_told(process)

    async def test_two_clients_have_nothing_to_do_with_each_other(self, store: Store) -> None:
        process = limiter(store, 1)

        assert [True, True, False] == [await passes(process, key) for key in (b"one", b"two", b"one")]

    async def test_a_block_is_used_without_asking_anybody(self, clock: Clock, store: Store) -> None:
        process = limiter(store)
        for _ in range(300):
            await passes(process)
            clock.seconds += 0.05

        assert 23 == len(store.draws)
        assert [0, 1, 2, 4, 8, 15, 15] == [draw.extra for draw in store.draws[:7]]

    async def test_requests_at_once_share_a_draw(self, store: Store) -> None:
        process = limiter(store, 100)

        passed = await asyncio.gather(*(passes(process) for _ in range(150)))

        assert 100 == sum(passed)
        assert len(store.draws) <= 2

    async def test_a_request_that_has_gone_takes_nobody_elses_permit(self, store: Store) -> None:
        process = limiter(store, 3)
        requests = [asyncio.ensure_future(passes(process)) for _ in range(2)]
        await asyncio.sleep(0)
        requests[0].cancel()

        assert await requests[1]
        assert [True, False] == [await passes(process), await passes(process)]


class TestFlood:
    @pytest.mark.case("F10")
    async def test_a_refused_one_asks_the_store_once_a_second(self, clock: Clock, store: Store) -> None:
        process = limiter(store, 10)
        for _ in range(10):
            await passes(process)
        before = len(store.draws)

        for _ in range(1_000):
            assert not await passes(process)
            clock.seconds += 0.01

        assert len(store.draws) - before <= 11

    @pytest.mark.case("F09")
    async def test_a_million_addresses_take_bounded_memory(self, store: Store) -> None:
        """A part of them and of the memory, to be quick."""
        process = limiter(store, most_clients=5_000)
        for number in range(20_000):
            await process.admit(b"%d" % number)

        assert 5_000 == len(process._clients)

    async def test_a_client_that_is_dropped_is_still_counted(self, store: Store) -> None:
        process = limiter(store, 20, most_clients=1)
        passed = 0
        for number in range(50):
            passed += await passes(process)
            await process.admit(b"%d" % number)

        assert 20 == passed


class TestManyProcesses:
    @pytest.mark.case("F09")
    async def test_they_share_one_limit(self, clock: Clock, store: Store) -> None:
        processes = [limiter(store) for _ in range(4)]
        passed = 0
        for number in range(700):
            passed += await passes(processes[number % 4])
            clock.seconds += 0.001

        # What a process may hold unused while the others are refused: a block near the limit is one permit.
        assert 600 - 3 <= passed <= 600

    @pytest.mark.case("F09")
    async def test_who_was_refused_by_one_is_refused_by_all(self, clock: Clock, store: Store) -> None:
        one, other = limiter(store, 50), limiter(store, 50)
        for _ in range(50):
            await passes(one)

        assert not await passes(other)

    @pytest.mark.case("F10")
    @pytest.mark.parametrize("number", range(8))
    async def test_the_wait_that_one_tells_holds_in_every_other(
        self, clock: Clock, store: Store, seed: int, number: int
    ) -> None:
        random = Random(f"{seed} {number}")
        processes = [limiter(store, 60) for _ in range(4)]
        for _ in range(800):
            process = random.choice(processes)
            if random.random() < 0.05:
                clock.seconds += random.random() * 20
            if random.random() < 0.1:
                await process.tend(forget=random.random() < 0.2)
            try:
                await process.admit(CLIENT)
            except RateLimitedError as refused:
                if random.random() < 0.1:
                    clock.seconds += refused.retry_after_s
                    assert await passes(random.choice(processes))
            clock.seconds += random.random() * 0.2

    @pytest.mark.parametrize("number", range(6))
    async def test_no_minute_holds_more(self, clock: Clock, store: Store, seed: int, number: int) -> None:
        random = Random(f"{seed} {number}")
        processes = [limiter(store, 60, most_clients=random.choice((1, 2, 50))) for _ in range(3)]
        let_in: list[float] = []
        for _ in range(1_500):
            process = random.choice(processes)
            if random.random() < 0.02:
                await process.tend(forget=False)
            if random.random() < 0.1:
                await process.admit(b"%d" % random.randrange(5))
            if await passes(process):
                let_in.append(clock.seconds)
            clock.seconds += random.choice((0.0, 0.01, 0.5, 3.0)) * random.random()

        assert all(later - first >= 60 for first, later in zip(let_in, let_in[60:], strict=False))

    async def test_what_one_doesnt_use_another_one_gets(self, clock: Clock, store: Store) -> None:
        idle, busy = limiter(store, 100), limiter(store, 100)
        for _ in range(5):
            await passes(idle)
        held = sum(client.left for client in idle._clients.values())
        clock.seconds += 11
        await idle.tend(forget=False)
        passed = sum([await passes(busy) for _ in range(100)])

        assert 0 < held
        assert 95 == passed

    async def test_a_process_that_stops_gives_back_what_it_holds(self, store: Store) -> None:
        stopping, other = limiter(store, 100), limiter(store, 100)
        for _ in range(5):
            await passes(stopping)

        await stopping.close()

        assert 95 == sum([await passes(other) for _ in range(100)])


class TestStop:
    async def test_a_request_that_waits_for_a_draw_ends_with_the_process(self, store: Store) -> None:
        store.hangs = True
        process = limiter(store)
        request = asyncio.ensure_future(passes(process))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        await process.close()

        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(request, 5)


class TestStoreThatFails:
    async def test_requests_pass_and_each_process_counts_by_itself(self, store: Store) -> None:
        processes = [limiter(store, 10) for _ in range(2)]
        store.fails = StoreUnavailableError()

        for process in processes:
            assert 10 == sum([await passes(process) for _ in range(30)])

    async def test_it_is_left_alone_for_a_while(self, clock: Clock, store: Store) -> None:
        process = limiter(store)
        store.fails = StoreUnavailableError()
        for _ in range(100):
            await passes(process)
            clock.seconds += 0.04

        assert 1 == len(store.draws)

    async def test_one_that_is_back_counts_again(self, clock: Clock, store: Store) -> None:
        process, other = limiter(store, 10), limiter(store, 10)
        store.fails = StoreUnavailableError()
        await passes(process)
        store.fails = None
        clock.seconds += 6
        for _ in range(10):
            await passes(process)

        assert not await passes(other)

    async def test_one_that_hangs_holds_nobody_up_for_long(self, store: Store) -> None:
        store.hangs = True

        async with asyncio.timeout(5):
            assert await passes(limiter(store))

    async def test_it_is_said_once_without_the_errors_text(
        self, clock: Clock, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        process = limiter(store)
        store.fails = RuntimeError("canary7f3a")
        for _ in range(3):
            await passes(process)
            clock.seconds += 6
        assert {"abeyance_limit_draws_total": 3, "abeyance_limit_shared": 0} == process.counters()
        store.fails = None
        await passes(process)
        assert {"abeyance_limit_draws_total": 4, "abeyance_limit_shared": 1} == process.counters()

        said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert 2 == len(said)
        assert "RuntimeError" in said[0]
        assert "canary" not in caplog.text
