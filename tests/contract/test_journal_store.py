"""What every store promises of an append, and of the reads that answer from what it wrote."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from abeyance.errors import StoreUnavailableError
from abeyance.journal.store import Append, JournalStore, OpenWait, StoredWait, WaitRow
from tests.contract.rows import content, event, follow, link, new_id, start, wait

pytestmark = pytest.mark.anyio


class TestAppend:
    async def test_a_new_run_is_stored_as_given(self, store: JournalStore) -> None:
        first = start(events=2, workspace="00123", project="1e5", key_id=1 << 40)

        assert [True] == await store.append([first])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert first.control == found.control
        assert list(first.events) == found.events

    async def test_no_appends_are_no_verdicts(self, store: JournalStore) -> None:
        assert [] == await store.append([])

    @pytest.mark.case("I03")
    async def test_the_same_append_wins_once(self, store: JournalStore) -> None:
        first = start()
        second = follow(first.control)

        verdicts = [await store.append([each]) for each in (first, first, second, second)]

        assert [[True], [False], [True], [False]] == verdicts

    async def test_a_writer_that_saw_another_version_loses(self, store: JournalStore) -> None:
        first = start(events=3)
        await store.append([first])

        behind = await store.append([follow(first.control._replace(version=2))])
        ahead = await store.append([follow(first.control._replace(version=4))])

        assert ([False], [False]) == (behind, ahead)

    async def test_a_writer_without_a_run_loses(self, store: JournalStore) -> None:
        unknown = follow(start().control)

        assert [False] == await store.append([unknown])
        assert await store.read_run(unknown.run_id) is None

    async def test_a_writer_under_another_lease_loses(self, store: JournalStore) -> None:
        lease = new_id()
        first = start(lease_id=lease, lease_until=5_000)
        await store.append([first])

        other = await store.append([replace(follow(first.control), expected_lease=new_id())])
        none = await store.append([replace(follow(first.control), expected_lease=None)])
        holder = await store.append([follow(first.control)])

        assert ([False], [False], [True]) == (other, none, holder)

    async def test_a_writer_who_believes_in_a_lease_that_is_gone_loses(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])

        assert [False] == await store.append([replace(follow(first.control), expected_lease=new_id())])

    async def test_nothing_is_stored_after_the_key_was_erased(self, store: JournalStore) -> None:
        first = start()
        erasing = follow(first.control, key_state="erased", status="cancelled", due=None)

        verdicts = [await store.append([each]) for each in (first, erasing, follow(erasing.control))]

        assert [[True], [True], [False]] == verdicts

    async def test_a_loser_leaves_nothing(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])
        run = first.run_id
        answering = link(run, 3)
        loser = replace(
            follow(first.control._replace(version=2)),
            contents=(content(run, 3),),
            waits=(wait(run, 3),),
            links=(answering,),
        )

        assert [False] == await store.append([loser])

        found = await store.read_run(run)
        assert found is not None
        assert (first.control, list(first.events), {}) == found
        assert await store.find_link(answering.digest) is None
        assert await store.find_content(run, 3) is None

    async def test_losers_dont_hurt_the_winners_of_their_batch(self, store: JournalStore) -> None:
        old = start()
        await store.append([old])
        batch = [start(), old, start(), follow(start().control), start()]

        assert [True, False, True, False, True] == await store.append(batch)

        stored = [await store.read_run(each.run_id) is not None for each in batch]
        assert [True, True, True, False, True] == stored

    async def test_several_runs_move_on_in_one_batch(self, store: JournalStore) -> None:
        first = [start() for _ in range(5)]
        await store.append(first)

        assert [True] * 5 == await store.append([follow(each.control, events=2) for each in first])

    async def test_a_batch_with_one_run_twice_is_a_mistake(self, store: JournalStore) -> None:
        first = start()

        with pytest.raises(ValueError, match="one append a run"):
            await store.append([first, first])

    @pytest.mark.parametrize(
        "wrong",
        [
            replace(start(), events=()),
            replace(start(events=2), events=start(events=3).events),
            replace(start(), contents=(content(new_id(), 1),)),
            replace(start(), waits=(wait(new_id(), 1),)),
        ],
    )
    async def test_rows_that_dont_belong_together_are_a_mistake(
        self, store: JournalStore, wrong: Append
    ) -> None:
        with pytest.raises(ValueError, match="append"):
            await store.append([wrong])

    @pytest.mark.case("I03")
    async def test_of_twenty_writers_one_wins_each_version(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        first = start()
        await store.append([first])
        everybody = asyncio.Barrier(20)
        wins: list[tuple[int, int]] = []

        async def compete(writer: int) -> None:
            one = store if writer % 2 else other_store
            for _ in range(4):
                found = await one.read_run(first.run_id)
                assert found is not None
                await everybody.wait()
                won = await one.append([follow(found.control, updated=writer)])
                wins.extend((found.control.version + 1, writer) for verdict in won if verdict)
                await everybody.wait()

        await asyncio.gather(*(compete(writer) for writer in range(20)))

        found = await store.read_run(first.run_id)
        assert found is not None
        assert [2, 3, 4, 5] == sorted(version for version, _ in wins)
        assert wins[-1][1] == found.control.updated
        assert [1, 2, 3, 4, 5] == [each.version for each in found.events]


class TestAppendUnderALease:
    async def test_the_holder_keeps_what_it_renewed(self, store: JournalStore) -> None:
        lease = new_id()
        first = start(lease_id=lease, lease_until=5_000, due=5_000)
        await store.append([first])
        await store.renew([lease], 9_000)

        await store.append([follow(first.control, due=1, lease_until=2)])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert (lease, 9_000, 5_000) == (
            found.control.lease_id, found.control.lease_until, found.control.due,
        )  # fmt: skip

    async def test_suspending_gives_the_lease_back_and_sets_the_deadline(self, store: JournalStore) -> None:
        first = start(lease_id=new_id(), lease_until=5_000, due=5_000)
        await store.append([first])
        suspended = follow(first.control, status="suspended", lease_id=None, lease_until=None, due=77_000)

        await store.append([suspended])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert suspended.control == found.control

    async def test_a_lease_is_taken_with_an_event(self, store: JournalStore) -> None:
        first = start(due=1)
        taken = follow(first.control, lease_id=new_id(), lease_until=8_000, due=8_000)

        await store.append([first])
        await store.append([taken])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert taken.control == found.control

    async def test_whoever_appends_to_a_free_run_sets_when_it_is_due(self, store: JournalStore) -> None:
        first = start(due=1_000, status="suspended")
        answered = follow(first.control, due=5, status="running")

        await store.append([first])
        await store.append([answered])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert answered.control == found.control


class TestWaits:
    async def test_a_wait_is_replaced_until_it_is_closed(self, store: JournalStore) -> None:
        first = start()
        run = first.run_id
        opened = wait(run, 1)
        waiting = opened._replace(state="waiting", paused=2, due=99_000)
        closed = waiting._replace(state="completed", answer=3, closed=3)
        token = link(run, 1)
        second = replace(follow(first.control), waits=(waiting,))
        third = replace(follow(second.control), waits=(closed,), contents=(content(run, 3),))
        seen = []

        for each in (replace(first, waits=(opened,), links=(token,)), second, third):
            await store.append([each])
            found = await store.find_link(token.digest)
            seen.append(found.wait if found else None)

        assert [opened, waiting, closed] == seen

    async def test_a_closed_wait_makes_the_whole_append_lose(self, store: JournalStore) -> None:
        first = start()
        closed = wait(first.run_id, 1, state="timed-out", closed=1)
        await store.append([replace(first, waits=(closed,))])
        other = wait(first.run_id, 2)
        late = replace(
            follow(first.control), waits=(other, closed._replace(state="completed", answer=2, closed=2))
        )

        assert [False] == await store.append([late])

        found = await store.read_run(first.run_id)
        stored = await store.find_wait(first.run_id, *token_of(closed))
        assert found is not None
        assert stored is not None
        assert (1, closed) == (found.control.version, stored.wait)
        assert await store.find_wait(first.run_id, *token_of(other)) is None

    async def test_answer_and_deadline_race_for_one_slot(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        first = start()
        opened = wait(first.run_id, 1)
        await store.append([replace(first, waits=(opened,))])
        answered = opened._replace(state="completed", answer=2, closed=2)
        timed_out = opened._replace(state="timed-out", closed=2)

        verdicts = await asyncio.gather(
            store.append([replace(follow(first.control), waits=(answered,))]),
            other_store.append([replace(follow(first.control), waits=(timed_out,))]),
        )

        found = await store.find_wait(first.run_id, *token_of(opened))
        assert found is not None
        assert [[False], [True]] == sorted(verdicts)
        assert (answered if verdicts[0] == [True] else timed_out) == found.wait

    async def test_a_wait_of_another_kind_has_no_token(self, store: JournalStore) -> None:
        first = start()
        timer = wait(first.run_id, 1, call_key=None, ordinal=None, due=1 << 60)

        await store.append([replace(first, waits=(timer,))])

        found = await store.read_record(first.run_id)
        assert found is not None
        assert [OpenWait(timer, first.events[0], None)] == found.waits


def token_of(row: WaitRow) -> tuple[UUID, int]:
    """What names a wait inside its run."""
    assert row.call_key is not None
    assert row.ordinal is not None
    return row.call_key, row.ordinal


class TestReads:
    async def test_a_run_is_read_between_versions(self, store: JournalStore) -> None:
        first = start(events=5)
        run = first.run_id
        await store.append([replace(first, contents=tuple(content(run, number) for number in (1, 3, 4)))])

        tail = await store.read_run(run, after=2)
        middle = await store.read_run(run, after=2, upto=3)
        past = await store.read_run(run, after=5)

        assert tail is not None
        assert middle is not None
        assert past is not None
        assert (list(first.events[2:]), [3, 4]) == (tail.events, sorted(tail.contents))
        assert (list(first.events[2:3]), {3: content(run, 3).blob}) == (middle.events, middle.contents)
        assert (first.control, [], {}) == past

    async def test_an_unknown_run_is_none_everywhere(self, store: JournalStore) -> None:
        run = new_id()

        assert await store.read_run(run) is None
        assert await store.read_record(run) is None
        assert await store.find_wait(run, new_id(), 1) is None
        assert await store.find_link(bytes(32)) is None
        assert await store.find_content(run, 1) is None
        assert ([], {}) == await store.read_events(run, after=0, limit=10, contents=True)

    async def test_a_stream_is_read_in_pages(self, store: JournalStore) -> None:
        first = start(events=5)
        run = first.run_id
        await store.append([replace(first, contents=(content(run, 1), content(run, 3)))])

        plain = await store.read_events(run, after=1, limit=2, contents=False)
        full = await store.read_events(run, after=2, limit=9, contents=True)

        assert (list(first.events[1:3]), {}) == plain
        assert (list(first.events[2:]), {3: content(run, 3).blob}) == full

    async def test_the_record_is_the_run_without_its_history(self, store: JournalStore) -> None:
        first = start(events=3)
        run = first.run_id
        waits = (
            wait(run, 1, closed=2, state="unused"),
            wait(run, 2, paused=3, state="waiting"),
            wait(run, 3),
        )
        await store.append([replace(first, waits=waits, contents=(content(run, 2), content(run, 3)))])

        found = await store.read_record(run)

        assert found is not None
        assert (first.control, first.events[0], first.events[2]) == found[:3]
        assert content(run, 3).blob == found.content
        assert found.waits == [
            OpenWait(waits[1], first.events[1], first.events[2]),
            OpenWait(waits[2], first.events[2], None),
        ]

    async def test_a_run_of_one_event_is_its_own_newest(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])

        assert (first.control, first.events[0], first.events[0], None, []) == await store.read_record(
            first.run_id
        )

    async def test_a_link_and_a_token_find_the_same_wait(self, store: JournalStore) -> None:
        first = start(events=4)
        run = first.run_id
        held = wait(run, 2, state="answered", answer=3)
        tokens = (link(run, 2), link(run, 2))
        blob = content(run, 3)
        await store.append([start(), replace(first, waits=(held,), links=tokens, contents=(blob,)), start()])
        expected = StoredWait(held, first.control, first.events[3], first.events[1], blob.blob)

        assert expected == await store.find_link(tokens[0].digest)
        assert expected == await store.find_link(tokens[1].digest)
        assert expected == await store.find_wait(run, *token_of(held))

    async def test_a_token_of_another_run_finds_nothing(self, store: JournalStore) -> None:
        first = start()
        opened = wait(first.run_id, 1)
        await store.append([replace(first, waits=(opened,))])

        key, ordinal = token_of(opened)

        assert await store.find_wait(new_id(), key, ordinal) is None
        assert await store.find_wait(first.run_id, key, 2) is None
        assert await store.find_wait(first.run_id, new_id(), ordinal) is None


class TestStream:
    async def test_a_stream_grows_version_by_version(self, store: JournalStore) -> None:
        stream = new_id()
        rows = [event(stream, number, "workspace-created") for number in range(1, 5)]

        assert await store.append_stream(stream, 0, rows[:1])
        assert await store.append_stream(stream, 1, rows[1:3])
        assert not await store.append_stream(stream, 1, rows[1:3])
        assert not await store.append_stream(stream, 0, rows[:1])
        assert not await store.append_stream(stream, 9, [event(stream, 10)])
        assert (rows[:3], {}) == await store.read_events(stream, after=0, limit=9, contents=True)

    async def test_one_of_two_openers_wins(self, store: JournalStore, other_store: JournalStore) -> None:
        stream = new_id()

        verdicts = await asyncio.gather(
            store.append_stream(stream, 0, [event(stream, 1, "log-opened")]),
            other_store.append_stream(stream, 0, [event(stream, 1, "key-added")]),
        )

        events, _ = await store.read_events(stream, after=0, limit=9, contents=False)
        assert [False, True] == sorted(verdicts)
        assert ["log-opened" if verdicts[0] else "key-added"] == [each.topic for each in events]


class TestDefinitions:
    async def test_the_first_one_stores_it(self, store: JournalStore, other_store: JournalStore) -> None:
        document = b'{"\x00":1}' * 10_000
        digest = hashlib.sha256(document).digest()

        verdicts = await asyncio.gather(
            store.put_definition(digest, document), other_store.put_definition(digest, document)
        )

        assert [False, True] == sorted(verdicts)
        assert document == await other_store.get_definition(digest)
        assert await store.get_definition(bytes(32)) is None


class TestHints:
    async def test_a_listener_gets_what_another_process_tells(
        self, store: JournalStore, other_store: JournalStore
    ) -> None:
        hints = store.hints()
        runs = {new_id(), new_id()}
        listening = asyncio.create_task(collect(hints, runs))

        while not listening.done():  # a hint may be lost, so it is told until it was heard
            await other_store.hint(sorted(runs))
            await asyncio.wait([listening], timeout=0.05)

        assert runs <= listening.result()

    async def test_nobody_listens(self, store: JournalStore) -> None:
        await store.hint([new_id()])


async def collect(hints: AsyncIterator[UUID], wanted: set[UUID]) -> set[UUID]:
    """What was heard, once all of `wanted` was."""
    heard: set[UUID] = set()
    async for run_id in hints:
        heard.add(run_id)
        if wanted <= heard:
            break
    return heard


class TestStore:
    async def test_it_can_be_written_to(self, store: JournalStore) -> None:
        await store.check_writable()

        assert [True] == await store.append([start()])

    async def test_its_time_goes_on(self, store: JournalStore, other_store: JournalStore) -> None:
        times = [await store.now(), await other_store.now(), await store.now()]

        assert times[0] > 1_700_000_000_000_000
        assert times[2] - times[0] < 60_000_000
        assert abs(times[1] - times[0]) < 1_000_000

    async def test_a_closed_store_is_unavailable(self, store: JournalStore) -> None:
        first = start()
        await store.append([first])
        await store.close()
        await store.close()

        for attempt in (
            store.append([start()]), store.read_run(first.run_id), store.seal(1), store.check_writable(),
        ):  # fmt: skip
            with pytest.raises(StoreUnavailableError):
                await attempt
