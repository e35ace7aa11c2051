"""The audit log over the sealed index, on both stores."""

import hashlib
from uuid import UUID

import pytest

from abeyance.journal.vault import Vault
from abeyance.projections.audit_log import AuditLog
from abeyance.projections.views import AuditRecord, Page
from abeyance.world import SystemWorld
from tests.integration.projections.conftest import Deployment, run
from tests.unit.projections.histories import ORIGIN, deployment_rows

pytestmark = pytest.mark.anyio


async def everything(log: AuditLog, limit: int = 3, **wanted: object) -> tuple[list[AuditRecord], int]:
    """All records, page by page, and how many pages there were."""
    records, after, pages = list[AuditRecord](), -1, 0
    while True:
        page: Page[AuditRecord] = await log.find(after=after, limit=limit, **wanted)  # type: ignore[arg-type]
        records += page.data
        pages += 1
        if page.next_cursor is None:
            return records, pages
        after = int(page.next_cursor)


async def two_runs(deployment: Deployment) -> None:
    first, second = run(1), run(2)
    await deployment.write(first.play("call", "pause 1", "suspend"))
    await deployment.write(second.play("call", "hold 1"))
    await deployment.write(first.play("answer 1", "completed"))
    await deployment.write(second.play("complete 1", "cancelled"))
    await deployment.follower.catch_up()


KINDS = [
    "started", "call-started", "call-paused", "suspended", "started", "call-started", "wait-token-answered",
    "wait-token-completed", "completed", "wait-token-discarded", "call-completed", "cancelled",
]  # fmt: skip


class TestAuditLog:
    async def test_it_shows_all_runs_in_the_journal_s_order(self, deployment: Deployment) -> None:
        await two_runs(deployment)

        records, _ = await everything(deployment.audit_log)

        assert KINDS == [record.entry.kind for record in records]
        assert list(range(12)) == [record.index for record in records]
        assert [1, 2, 1, 2] == [records[index].run_id.int for index in (0, 4, 8, 11)]

    async def test_it_holds_the_deployment_s_own_stream(self, deployment: Deployment) -> None:
        rows = deployment_rows()
        await deployment.journal.append_stream(rows[0].run_id, 0, rows)
        await deployment.follower.catch_up()

        records, _ = await everything(deployment.audit_log)

        assert ["log-opened", "key-added"] == [record.entry.kind for record in records]

    async def test_a_filter_by_run_shows_that_run_only(self, deployment: Deployment) -> None:
        await two_runs(deployment)

        records, pages = await everything(deployment.audit_log, run_id=UUID(int=1))
        rest = await deployment.audit_log.find(after=7, run_id=UUID(int=1))

        assert [0, 1, 2, 3, 7, 8] == [record.index for record in records]
        assert [8] == [record.index for record in rest.data]
        assert {1} == {record.run_id.int for record in records}
        assert 2 == pages

    async def test_filters_by_kind_and_run_hold_together(self, deployment: Deployment) -> None:
        await two_runs(deployment)

        started, _ = await everything(deployment.audit_log, kind="started", limit=1)
        of_run, _ = await everything(deployment.audit_log, kind="call-started", run_id=UUID(int=2))

        assert [0, 4] == [record.index for record in started]
        assert [5] == [record.index for record in of_run]

    async def test_a_rare_kind_is_found_in_bounded_pieces(self, deployment: Deployment) -> None:
        await deployment.journal.append([run(number).appends[0] for number in range(1, 701)])
        await deployment.write(run(900).play("completed"))
        await deployment.follower.catch_up()
        log = AuditLog(
            deployment.journal, codec=deployment.codec, vault=Vault(ORIGIN, SystemWorld()),
            keys=deployment.keys, looked_at=256,
        )  # fmt: skip

        first = await log.find(kind="completed")
        records, pages = await everything(log, kind="completed")

        assert ((), "255") == (first.data, first.next_cursor)
        assert [701] == [record.index for record in records]
        assert 3 <= pages

    async def test_what_is_not_sealed_is_not_shown(self, deployment: Deployment) -> None:
        await deployment.write(run(1))

        assert ([], 1) == await everything(deployment.audit_log)
        assert ([], 1) == await everything(deployment.audit_log, run_id=UUID(int=1))

    async def test_an_answer_s_events_show_its_call_size_and_digest(self, deployment: Deployment) -> None:
        await two_runs(deployment)

        records, _ = await everything(deployment.audit_log)

        answers = {record.index: record.answer for record in records if record.answer is not None}
        taken, held = b'{"pickupId":"p-2"}', b'{"pickupId":"p-3"}'
        assert {
            6: {"size": len(held), "sha256": hashlib.sha256(held).hexdigest()},
            7: {"size": len(taken), "sha256": hashlib.sha256(taken).hexdigest()},
            9: {"size": len(held), "sha256": hashlib.sha256(held).hexdigest()},
        } == answers
        assert ["1", "1", "1"] == [records[index].entry.node for index in (6, 7, 9)]

    @pytest.mark.case("H01")
    async def test_after_the_key_is_destroyed_the_record_stays_and_the_digest_is_gone(
        self, deployment: Deployment
    ) -> None:
        await two_runs(deployment)
        deployment.keys.erased = True

        records, _ = await everything(deployment.audit_log)

        assert KINDS == [record.entry.kind for record in records]
        assert {None} == {record.answer for record in records}

    async def test_an_answer_that_was_changed_is_said_to_be(self, deployment: Deployment) -> None:
        await two_runs(deployment)
        await deployment.damage_contents(b"\x00" * 60)

        records, _ = await everything(deployment.audit_log)

        assert {"damaged": True} == records[7].answer
