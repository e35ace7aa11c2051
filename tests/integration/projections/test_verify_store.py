"""Verification of a whole store, on both stores."""

from uuid import UUID

import pytest

from abeyance.audit.journal import StoreReport, verify_store
from tests.integration.projections.conftest import Deployment, run
from tests.unit.projections.histories import ORIGIN, ROOT, SIGNER, begin, deployment_rows

pytestmark = pytest.mark.anyio


async def verified(deployment: Deployment, root: bytes | None = ROOT.public_key) -> StoreReport:
    async with deployment.journal.snapshot() as snapshot:
        return await verify_store(snapshot, root_public_key=root)


async def found(deployment: Deployment) -> set[tuple[int, int | None, str]]:
    report = await verified(deployment)
    assert "tampered" == report.verdict
    return {(each.stream.int, each.version, each.rule) for each in report.findings}


async def grown(deployment: Deployment) -> None:
    """A log and two runs, of which the second has two events that aren't sealed."""
    rows = deployment_rows()
    await deployment.journal.append_stream(rows[0].run_id, 0, rows)
    await deployment.write(
        begin(UUID(int=50)).play("call", "pause 1", "suspend").play("answer 1", "completed")
    )
    await deployment.write(run(51).play("call"))
    await deployment.journal.seal(8)


class TestVerifyStore:
    async def test_a_store_that_was_not_touched_is_verified(self, deployment: Deployment) -> None:
        await grown(deployment)

        report = await verified(deployment)

        assert (ORIGIN, "verified", 3, 10, 8) == (
            report.origin, report.verdict, report.streams, report.events, report.sealed,
        )  # fmt: skip

    async def test_without_a_root_key_from_elsewhere_it_is_not_anchored(self, deployment: Deployment) -> None:
        await grown(deployment)

        assert "unanchored" == (await verified(deployment, None)).verdict

    @pytest.mark.case("G05")
    async def test_another_root_key_is_told(self, deployment: Deployment) -> None:
        await grown(deployment)

        assert "tampered" == (await verified(deployment, SIGNER.public_key)).verdict

    @pytest.mark.case("G12")
    async def test_an_empty_store_is_not_verified(self, deployment: Deployment) -> None:
        assert "unusable" == (await verified(deployment)).verdict

    async def test_a_changed_byte_names_its_event(self, deployment: Deployment) -> None:
        await grown(deployment)
        (row,), _ = await deployment.journal.read_events(UUID(int=50), after=3, limit=1, contents=False)
        state = bytearray(row.state)
        state[40] ^= 1
        await deployment.damage_event(UUID(int=50), 4, state=bytes(state))

        assert {(50, 4, "signature")} == await found(deployment)

    async def test_a_changed_topic_names_its_event(self, deployment: Deployment) -> None:
        await grown(deployment)
        await deployment.damage_event(UUID(int=50), 4, topic="cancelled")

        assert {(50, 4, "row")} == await found(deployment)

    @pytest.mark.case("G02")
    async def test_a_tail_that_was_cut_off_is_found_by_control_row_and_sealed_index(
        self, deployment: Deployment
    ) -> None:
        await grown(deployment)
        stored = UUID(int=50).hex if "sqlite" in type(deployment.journal).__module__ else UUID(int=50)
        await deployment.damage(
            "DELETE FROM journal_events WHERE originator_id = $1 AND originator_version = $2", (stored, 6)
        )

        report = await verified(deployment)

        assert {("head", 5, None), ("sealed", None, 7)} == {
            (each.rule, each.version, each.index) for each in report.findings
        }

    async def test_a_run_whose_events_are_gone_is_found_by_its_control_row(
        self, deployment: Deployment
    ) -> None:
        await grown(deployment)
        stored = UUID(int=51).hex if "sqlite" in type(deployment.journal).__module__ else UUID(int=51)
        await deployment.damage("DELETE FROM journal_events WHERE originator_id = $1", (stored,))

        assert {(51, None, "head")} == await found(deployment)

    async def test_a_run_without_a_control_row_is_found(self, deployment: Deployment) -> None:
        await grown(deployment)
        await deployment.damage("DELETE FROM run_control WHERE run_id = $1", (UUID(int=50),))

        assert {(50, 6, "head")} == await found(deployment)

    async def test_a_sealed_index_that_was_rewritten_is_found(self, deployment: Deployment) -> None:
        """Two entries of one run changed places, and one names an event that never was."""
        await grown(deployment)
        ((entries,),) = await deployment.read_models.select("SELECT entries FROM sealed_tiles", ())
        names = [entries[place : place + 24] for place in range(0, len(entries), 24)]
        names[3], names[4] = names[4], names[3]
        names[7] = UUID(int=99).bytes + (1).to_bytes(8)
        await deployment.damage("UPDATE sealed_tiles SET entries = $1", (b"".join(names),))

        report = await verified(deployment)

        assert {("sealed", 3, 3), ("sealed", None, 7)} == {
            (each.rule, each.version, each.index) for each in report.findings
        }
