"""A run whose stored history doesn't hold is left alone, with an alarm; the others go on."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from abeyance import flow, step
from abeyance.errors import StoreUnavailableError
from abeyance.journal.postgres.store import PostgresJournalStore
from abeyance.journal.postgres.wire import statement
from abeyance.journal.sqlite.store import SQLiteJournalStore
from abeyance.journal.store import Control
from tests.support.carrier import Carrier, Empty, one_step, pausing
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio


@pytest.fixture
def hot_runs() -> int:
    """A warm run isn't read again."""
    return 0


BODY = -6
SIGNATURE = 20


async def damage(deployment: Deployment, run_id: UUID, version: int, *, place: int = BODY) -> None:
    """Flip a bit of a stored event."""
    stored = await deployment.store.read_run(run_id)
    assert stored is not None
    state = bytearray(stored.events[version - 1].state)
    state[place] ^= 1
    if isinstance(deployment.store, SQLiteJournalStore):
        text = "UPDATE journal_events SET state = ? WHERE originator_id = ? AND originator_version = ?"
        values = (bytes(state), run_id.hex, version)
        await deployment.store.write(lambda cursor: cursor.execute(text, values).rowcount)
        return
    assert isinstance(deployment.store, PostgresJournalStore)
    text = (
        "WITH done AS (UPDATE journal_events SET state = $1 WHERE originator_id = $2"
        " AND originator_version = $3 RETURNING 1) SELECT count(*) FROM done"
    )
    changed: Any = await deployment.store.fetch(
        statement(text, "bytea", "uuid", "bigint"), bytes(state), run_id, version
    )
    assert [(1,)] == changed


async def damage_output(deployment: Deployment, run_id: UUID) -> None:
    """Put another content in place of the newest event's."""
    if isinstance(deployment.store, SQLiteJournalStore):
        text = (
            "UPDATE contents SET blob = zeroblob(100) WHERE event ="
            " (SELECT max(rowid) FROM journal_events WHERE originator_id = ?)"
        )
        await deployment.store.write(lambda cursor: cursor.execute(text, (run_id.hex,)).rowcount)
        return
    assert isinstance(deployment.store, PostgresJournalStore)
    text = (
        "WITH done AS (UPDATE journal_events SET content = decode(repeat('00', 100), 'hex')"
        " WHERE originator_id = $1 AND topic = 'completed' RETURNING 1) SELECT count(*) FROM done"
    )
    assert [(1,)] == await deployment.store.fetch(statement(text, "uuid"), run_id)


async def control(process: EngineProcess, run_id: UUID) -> Control:
    stored = await process.store.read_run(run_id)
    assert stored is not None
    return stored.control


class TestDamagedRun:
    async def test_an_answer_is_refused_for_now_and_nothing_is_signed_over_it(
        self, deployment: Deployment, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The newest event isn't the one that the control row names: 503, an alarm, no event."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            damaged, sound = await process.start(ship), await process.start(ship)
            before = await control(process, damaged.id)
            await damage(deployment, damaged.id, before.version)

            with pytest.raises(StoreUnavailableError):
                await process.answer(carrier.urls[0], b"1")

            assert "ALARM" in caplog.text
            assert before == await control(process, damaged.id)
            await process.answer(carrier.urls[1], b"1")
            assert "completed" == (await process.settled(sound.id)).status

    async def test_a_claim_puts_it_back_with_an_alarm(
        self, deployment: Deployment, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nothing is written to it, and it isn't claimed again at once."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            before = await control(process, view.id)
            await damage(deployment, view.id, 1)

            await process.answer(carrier.urls[0], b"1")

            while "ALARM" not in caplog.text or (await control(process, view.id)).lease_id is not None:
                await asyncio.sleep(0.01)
            after = await control(process, view.id)
            assert before.version + 1 == after.version
            assert after.due is not None
            assert after.due - await process.store.now() > 1_000_000_000

    async def test_a_signature_that_doesn_t_hold_stops_its_run(
        self, deployment: Deployment, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The answer would be signed over an event that nobody signed."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            before = await control(process, view.id)
            await damage(deployment, view.id, before.version, place=SIGNATURE)

            with pytest.raises(StoreUnavailableError):
                await process.answer(carrier.urls[0], b"1")

            assert "ALARM" in caplog.text

    @pytest.mark.parametrize("version", [1, 2, 3, 4], ids=["started", "call-started", "paused", "newest"])
    async def test_its_view_says_that_it_is_damaged(self, deployment: Deployment, version: int) -> None:
        """Whichever of the events that the view is made of is hit; the definition is known but for one."""
        ship = one_step(pausing(Carrier()))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            await damage(deployment, view.id, version)

            shown = await process.runs.get(view.id)

            assert "suspended" == shown.status
            assert shown.waiting_for is not None
            assert ["history-damaged"] == [each.what for each in shown.waiting_for.other]
            assert ("unknown" if version == 1 else "t.flow") == shown.definition_id

    async def test_damage_that_only_a_claim_finds_is_shown_from_then_on(self, deployment: Deployment) -> None:
        """A view doesn't open every event: a run that was put back is read whole."""
        first, second = Carrier(), Carrier()
        steps = [
            step("one", pausing(first, id="t.one")),
            step("two", pausing(second, id="t.two"), needs=["one"], input=lambda results: {}),
        ]
        ship = flow("t.flow", input=Empty, steps=steps)
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            await process.answer(first.urls[0], b"1")
            await second.was_handed(1)
            await process.settled(view.id, "suspended")
            await damage(deployment, view.id, 2)
            assert "suspended" == (await process.runs.get(view.id)).status

            await process.answer(second.urls[0], b"2")

            shown = await process.settled(view.id, "suspended")
            assert shown.waiting_for is not None
            assert ["history-damaged"] == [each.what for each in shown.waiting_for.other]

    async def test_an_output_that_was_changed_is_shown_as_damage(self, deployment: Deployment) -> None:
        """Not as an output, nor as an error."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            await process.answer(carrier.urls[0], b'"sound"')
            await process.settled(view.id)
            await damage_output(deployment, view.id)

            shown = await process.runs.get(view.id)

            assert None is shown.output
            assert shown.waiting_for is not None
            assert ["history-damaged"] == [each.what for each in shown.waiting_for.other]

    async def test_a_retry_looks_again_at_once(self, deployment: Deployment) -> None:
        """Its bytes were mended: it goes on, long before somebody would look by themselves."""
        carrier = Carrier()
        ship = one_step(pausing(carrier))
        async with deployment.process(ship) as process:
            view = await process.start(ship)
            await damage(deployment, view.id, 1)
            await process.answer(carrier.urls[0], b"1")
            while (await control(process, view.id)).lease_id is not None:
                await asyncio.sleep(0.01)
            await damage(deployment, view.id, 1)

            await process.runs.retry(view.id)

            assert b"1" == (await process.settled(view.id)).output
