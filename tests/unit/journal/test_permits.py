"""The permits of one client as a pure state machine, with the clock passed in."""

from collections import deque
from uuid import UUID

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.journal.permits import (
    LONG_US,
    MOST_CHARGES,
    SHORT_US,
    SLOT_US,
    WINDOW_US,
    Charge,
    Draw,
    MemoryPermits,
    Settled,
    Window,
    charged,
    draw,
    merge,
    settle,
    total,
)

KEY = b"a client"
SECOND = 1_000_000


def block(number: int) -> UUID:
    return UUID(int=number)


def asked(need: int, extra: int = 0, limit: int = 600, *, number: int = 0) -> Draw:
    return Draw(KEY, need, extra, limit, block(number))


# What one of several processes does next, and how long after the last thing that happened.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(("draw", "use", "settle")),
        st.integers(0, 20),
        st.sampled_from((0, 1, SLOT_US - 1, SECOND, LONG_US, WINDOW_US // 2)) | st.integers(0, WINDOW_US),
    ),
    max_size=60,
)


class Processes:
    """Four processes that use one window; `let_in` are the moments at which a request was let through."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.now = 0
        self.window: Window = ()
        self.let_in: deque[int] = deque()
        self.blocks: dict[int, tuple[UUID, int, int, int, int]] = {}
        self.count = 0

    def draw(self, process: int, size: int) -> None:
        self.count += 1
        settled = self._closed(process)
        asked = Draw(KEY, 1 + size // 10, size, self.limit, block(self.count), settled)
        before = charged(settle(charged(self.window, self.now), settled, self.now), self.now)
        self.window, drawn = draw(self.window, asked, self.now)
        self.window = merge(self.window)
        self.let_in.extend([self.now] * drawn.granted)
        if drawn.extra:
            until = self.now + drawn.valid_us
            self.blocks[process] = (asked.block, drawn.extra, until, 0, self.now)
        if drawn.granted == 0:
            assert total(before) >= self.limit

    def use(self, process: int) -> None:
        if process in self.blocks:
            name, left, until, used, _ = self.blocks[process]
            if left and self.now < until:
                self.let_in.append(self.now)
                self.blocks[process] = (name, left - 1, until, used + 1, self.now)

    def settle(self, process: int) -> None:
        self.window = merge(settle(charged(self.window, self.now), self._closed(process), self.now))

    def _closed(self, process: int) -> Settled | None:
        if process not in self.blocks:
            return None
        name, _, _, used, used_at = self.blocks.pop(process)
        return Settled(KEY, name, used, self.now - used_at)

    def most_in_a_minute(self) -> int:
        return max((sum(0 <= at - end < WINDOW_US for at in self.let_in) for end in self.let_in), default=0)


class TestLimit:
    @given(st.integers(1, 40), STEPS)
    @pytest.mark.case("F09")
    def test_no_minute_ever_holds_more_over_all_processes(
        self, limit: int, steps: list[tuple[int, str, int, int]]
    ) -> None:
        processes = Processes(limit)

        for process, what, size, later in steps:
            processes.now += later
            match what:
                case "draw":
                    processes.draw(process, size)
                case "use":
                    for _ in range(size):
                        processes.use(process)
                case _:
                    processes.settle(process)

        assert processes.most_in_a_minute() <= limit

    @given(st.integers(1, 40), STEPS)
    @pytest.mark.case("F10")
    def test_who_waits_as_long_as_told_gets_in(
        self, limit: int, steps: list[tuple[int, str, int, int]]
    ) -> None:
        """Whatever the processes give back meanwhile, and whichever of them is asked."""
        processes = Processes(limit)
        for process, what, size, later in steps:
            processes.now += later
            if what == "draw":
                processes.draw(process, size)
            elif what == "use":
                processes.use(process)

        _, refused = draw(processes.window, asked(1, limit=limit), processes.now)
        if refused.granted:
            return
        processes.now += refused.wait_us // 2
        for process in range(4):
            processes.settle(process)
        processes.now += refused.wait_us - refused.wait_us // 2

        assert 0 < refused.wait_us <= WINDOW_US + LONG_US
        assert 1 == draw(processes.window, asked(1, limit=limit), processes.now)[1].granted

    def test_exactly_the_limit_passes_and_not_one_more(self) -> None:
        window: Window = ()
        passed = 0
        for moment in range(601):
            window, drawn = draw(window, asked(1), moment)
            passed += drawn.granted

        assert 600 == passed

    @pytest.mark.case("F10")
    def test_two_bursts_around_the_turn_of_a_minute_are_one(self) -> None:
        window, first = draw((), asked(600), 59 * SECOND)
        window, second = draw(window, asked(600), 60 * SECOND)
        _, third = draw(window, asked(600), 59 * SECOND + WINDOW_US)

        assert (600, 0, 600) == (first.granted, second.granted, third.granted)
        assert 59 * SECOND == second.wait_us

    @pytest.mark.case("F10")
    @pytest.mark.parametrize("step", [-3600 * SECOND, -1, 3600 * SECOND])
    def test_a_step_of_the_clock_locks_nobody_out_for_longer(self, step: int) -> None:
        start = 7200 * SECOND
        window, _ = draw((), asked(600, 30), start)
        _, drawn = draw(window, asked(1), start + step)

        assert drawn.wait_us <= WINDOW_US + LONG_US

    def test_a_refused_draw_changes_nothing(self) -> None:
        full, _ = draw((), asked(600), 0)
        after, refused = draw(full, asked(1, 20), 5)

        assert full == after
        assert (0, 0) == (refused.granted, refused.extra)


class TestBlocks:
    def test_they_shrink_as_the_limit_comes_near(self) -> None:
        sizes = [draw((Charge(0, before),), asked(1, 15), 1)[1].extra for before in (0, 500, 560, 591, 598)]

        assert [15, 12, 4, 1, 0] == sizes

    def test_one_that_was_drawn_near_the_limit_ends_soon(self) -> None:
        _, far = draw((), asked(1, 15), 0)
        _, near = draw((Charge(0, 400),), asked(1, 15), 1)

        assert (LONG_US, SHORT_US) == (far.valid_us, near.valid_us)

    def test_what_was_unused_of_one_is_free_at_once(self) -> None:
        window, _ = draw((), asked(100, 50, number=7), 0)
        window = settle(window, Settled(KEY, block(7), 2, SECOND), 3 * SECOND)

        assert 102 == total(window)
        assert Charge(2 * SECOND, 2) in window

    def test_one_that_is_not_there_any_more_changes_nothing(self) -> None:
        window, _ = draw((), asked(100), 0)

        assert window == settle(window, Settled(KEY, block(7), 2, 0), SECOND)

    def test_a_process_that_dies_keeps_them_for_the_rest_of_the_minute_only(self) -> None:
        window, _ = draw((), asked(1, 50), 0)

        assert () == charged(window, LONG_US + WINDOW_US)


class TestMemory:
    def test_a_window_stays_small_whatever_is_drawn(self) -> None:
        window: Window = ()
        for moment in range(0, 2 * WINDOW_US, 10_000):
            window = merge(draw(window, asked(1, limit=1_000_000), moment)[0])
            assert len(window) <= MOST_CHARGES

        assert 6_000 <= total(window) <= 6_000 + SLOT_US // 10_000

    def test_no_more_windows_are_kept_than_it_is_told(self) -> None:
        permits = MemoryPermits(lambda: 0, most_keys=100)

        async def flood() -> None:
            for number in range(1_000):
                await permits.draw(asked(1)._replace(key=b"%d" % number))

        anyio.run(flood)
        assert 100 == len(permits)

    def test_the_windows_of_who_is_gone_are_dropped(self) -> None:
        now = [0]
        permits = MemoryPermits(lambda: now[0])

        async def play() -> list[int]:
            await permits.draw(asked(1)._replace(key=b"gone"))
            now[0] = WINDOW_US - 1
            await permits.draw(asked(1)._replace(key=b"here"))
            kept = [len(permits)]
            now[0] = WINDOW_US
            await permits.forget()
            return [*kept, len(permits)]

        assert [2, 1] == anyio.run(play)
