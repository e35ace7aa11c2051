"""`projections check`: silent where every row is what the journal says, and whatever was changed is named."""

from uuid import UUID

import pytest

from abeyance.projections.checking import CheckReport, check
from abeyance.projections.runs_list import RunsFilter
from tests.integration.projections.conftest import Deployment, run
from tests.unit.projections.histories import LEASE, Author, begin, write

pytestmark = pytest.mark.anyio

HISTORIES = [
    [],
    [0, 8, 9, 8],
    [2, 9, 12, 7, 3, 9],
    [3, 0, 7, 1, 22, 5, 30],
    [0, 11, 10, 8, 40, 7, 3, 14],
    [12, 3],
]


async def checked(deployment: Deployment) -> CheckReport:
    async with deployment.journal.snapshot() as snapshot:
        return await check(snapshot, deployment.codec)


async def drift(deployment: Deployment) -> set[tuple[str, int, str, str]]:
    """What the check names: table, run, row and column."""
    return {
        (each.model, each.stream.int, each.row, each.column) for each in (await checked(deployment)).drift
    }


async def grown(deployment: Deployment) -> list[Author]:
    """Some runs of all kinds, and the list of runs brought up to them."""
    authors = [
        write(moves, UUID(int=number), cut_every=number, labels={"order": str(number)})
        for number, moves in enumerate(HISTORIES, 1)
    ]
    for author in authors:
        await deployment.write(author)
    await deployment.follower.catch_up()
    return authors


class TestCheck:
    async def test_an_empty_store_has_no_drift(self, deployment: Deployment) -> None:
        report = await checked(deployment)

        assert (0, 0, ()) == (report.streams, report.events, report.drift)

    async def test_what_was_written_has_no_drift(self, deployment: Deployment) -> None:
        authors = await grown(deployment)

        report = await checked(deployment)

        events = sum(author.now.version for author in authors)
        assert (len(authors), events, events, ()) == (
            report.streams, report.events, report.position, report.drift,
        )  # fmt: skip

    async def test_a_list_that_is_behind_is_not_wrong(self, deployment: Deployment) -> None:
        """Events that are sealed but not applied, and events that aren't even sealed."""
        author = await deployment.write(run(20))
        await deployment.follower.catch_up()
        await deployment.write(author.play("call", "pause 1", "suspend"))
        await deployment.write(run(21))
        await deployment.journal.seal(2)

        assert set() == await drift(deployment)

        await deployment.journal.seal(100)
        await deployment.write(author.play("answer 1", "completed"))

        assert set() == await drift(deployment)

    async def test_a_list_that_was_never_followed_is_not_compared(self, deployment: Deployment) -> None:
        await deployment.write(run(1))

        report = await checked(deployment)

        assert (None, ()) == (report.position, report.drift)

    async def test_a_run_that_somebody_holds_has_no_drift(self, deployment: Deployment) -> None:
        author = begin(UUID(int=1))
        await deployment.write(author)
        author.moves()["call"]()
        author.cut(LEASE)
        await deployment.write(author)

        assert set() == await drift(deployment)


CHANGES = [
    ("UPDATE run_control SET version = version + 1 WHERE run_id = $1", ("run_control", "", "version")),
    ("UPDATE run_control SET status = 'failed' WHERE run_id = $1", ("run_control", "", "status")),
    ("UPDATE run_control SET key_id = 99 WHERE run_id = $1", ("run_control", "", "key_id")),
    ("UPDATE run_control SET workspace = 'x' WHERE run_id = $1", ("run_control", "", "workspace")),
    ("UPDATE run_control SET project = 'x' WHERE run_id = $1", ("run_control", "", "project")),
    ("UPDATE run_control SET created = 1 WHERE run_id = $1", ("run_control", "", "created")),
    ("UPDATE run_control SET updated = 1 WHERE run_id = $1", ("run_control", "", "updated")),
    ("UPDATE run_control SET head = run_id::text::bytea WHERE run_id = $1", ("run_control", "", "head")),
    ("UPDATE run_control SET due = due + 9000000000 WHERE run_id = $1", ("run_control", "", "due")),
    ("UPDATE run_control SET due = NULL WHERE run_id = $1", ("run_control", "", "due")),
    ("DELETE FROM run_control WHERE run_id = $1", ("run_control", "", "")),
    ("UPDATE waits SET state = 'open' WHERE run_id = $1", ("waits", "opened 2", "state")),
    ("UPDATE waits SET due = 5 WHERE run_id = $1", ("waits", "opened 2", "due")),
    ("UPDATE waits SET closed = 4 WHERE run_id = $1", ("waits", "opened 2", "closed")),
    ("UPDATE waits SET paused = NULL WHERE run_id = $1", ("waits", "opened 2", "paused")),
    ("UPDATE waits SET ordinal = 2 WHERE run_id = $1", ("waits", "opened 2", "ordinal")),
    ("UPDATE waits SET call_key = run_id WHERE run_id = $1", ("waits", "opened 2", "call_key")),
    ("DELETE FROM waits WHERE run_id = $1", ("waits", "opened 2", "")),
    ("INSERT INTO waits (run_id, opened, state) VALUES ($1, 4, 'open')", ("waits", "opened 4", "")),
    ("UPDATE links SET opened = 3 WHERE run_id = $1", ("links", "LINK", "opened")),
    ("DELETE FROM links WHERE run_id = $1", ("links", "LINK", "")),
    ("UPDATE runs_list SET status = 'failed' WHERE run_id = $1", ("runs", "", "status")),
    ("UPDATE runs_list SET definition = 'x' WHERE run_id = $1", ("runs", "", "definition")),
    ("UPDATE runs_list SET created = 1 WHERE run_id = $1", ("runs", "", "created")),
    ("UPDATE runs_list SET version = 9 WHERE run_id = $1", ("runs", "", "version")),
    ("UPDATE runs_list SET version = 2 WHERE run_id = $1", ("runs", "", "version")),
    ("DELETE FROM runs_list WHERE run_id = $1", ("runs", "", "")),
    ("DELETE FROM runs_list_labels WHERE run_id = $1", ("runs", "label order", "")),
    ("UPDATE runs_list_labels SET value = '9' WHERE run_id = $1", ("runs", "label order", "")),
]


async def test_every_changed_row_is_found(deployment: Deployment) -> None:
    """One change after the other, each to a run of its own: each is named, and nothing else."""
    authors = [
        begin(UUID(int=50 + place), {"order": str(place)}).play("call", "pause 1", "suspend")
        for place in range(len(CHANGES))
    ]
    for author in authors:
        await deployment.write(author)
    await deployment.follower.catch_up()
    before = await drift(deployment)
    expected, found = [], []
    for author, (change, (model, row, column)) in zip(authors, CHANGES, strict=True):
        if "sqlite" in type(deployment.journal).__module__:
            change = change.replace("run_id::text::bytea", "run_id")
        await deployment.damage(change, (author.run_id,))
        after = await drift(deployment)
        digest = next(iter(author.written.links)).hex()
        expected.append((change, {(model, author.run_id.int, row.replace("LINK", digest), column)}))
        found.append((change, after - before))
        before = after

    assert expected == found


class TestDamagedRows:
    async def test_rows_of_a_run_that_has_no_events_are_found(self, deployment: Deployment) -> None:
        author = begin(UUID(int=50), {"order": "1"}).play("call", "pause 1", "suspend")
        await deployment.write(author)
        await deployment.follower.catch_up()
        stored = author.run_id.hex if "sqlite" in type(deployment.journal).__module__ else author.run_id
        await deployment.damage("DELETE FROM journal_events WHERE originator_id = $1", (stored,))

        found = {(model, row, column) for model, _, row, column in await drift(deployment)}

        digest = next(iter(author.written.links)).hex()
        assert {
            ("run_control", "", ""), ("waits", "opened 2", ""), ("links", digest, ""), ("runs", "", ""),
            ("runs", "label order", ""), ("waits_list", next(iter(author.now.waits)), ""),
        } == found  # fmt: skip

    async def test_a_link_that_no_event_made_is_found(self, deployment: Deployment) -> None:
        await deployment.write(begin(UUID(int=50)).play("call"))
        digest = b"\x07" * 32
        await deployment.damage(
            "INSERT INTO links (digest, run_id, opened) VALUES ($1, $2, 2)", (digest, UUID(int=50))
        )

        assert {("links", 50, digest.hex(), "")} == await drift(deployment)

    async def test_a_history_that_does_not_hold_is_named_and_the_rest_is_compared(
        self, deployment: Deployment
    ) -> None:
        for number in (50, 51):
            await deployment.write(begin(UUID(int=number)).play("call"))
        await deployment.damage_event(UUID(int=50), 2, topic="call-completed")
        await deployment.damage("UPDATE run_control SET status = 'failed' WHERE run_id = $1", (UUID(int=51),))

        assert {("journal", 50, "history", ""), ("run_control", 51, "", "status")} == await drift(deployment)

    async def test_a_dropped_event_is_named(self, deployment: Deployment) -> None:
        await deployment.write(begin(UUID(int=50)).play("call", "pause 1"))
        await deployment.damage_event(UUID(int=50), 2, originator_version=7)

        assert {("journal", 50, "history", "")} == await drift(deployment)

    async def test_events_that_the_list_skipped_are_found(self, deployment: Deployment) -> None:
        """The position says that an event was applied, and its row says it wasn't."""
        author = await deployment.write(run(50))
        await deployment.follower.catch_up()
        await deployment.write(author.play("completed"))
        await deployment.write(run(51))
        await deployment.journal.seal(100)
        await deployment.damage("UPDATE read_models SET position = $1", (3,))

        assert {("runs", 50, "", "version"), ("runs", 50, "", "status"), ("runs", 51, "", "")} == await drift(
            deployment
        )


async def test_the_report_stops_at_the_most_that_was_asked_for(deployment: Deployment) -> None:
    for number in range(1, 6):
        await deployment.write(run(number))
    await deployment.damage("UPDATE run_control SET created = $1", (1,))

    async with deployment.journal.snapshot() as snapshot:
        report = await check(snapshot, deployment.codec, most=2)

    assert 2 == len(report.drift)
    assert str(report.drift[0]).startswith(
        f"run_control of {UUID(int=1)} created: stored 1, the journal says"
    )
    page = await deployment.runs.find(RunsFilter(), limit=1)
    assert () == page.data
