"""`docs/how-to/replace-a-leaked-link.md`: its commands are typed, its table is what the API refuses with."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from abeyance.http.errors import find_row
from abeyance.http.operations.waits import OPERATIONS
from tests.docs.test_answer_a_link import Shop
from tests.support.pages import DOCS, blocks, codes, tables
from tests.support.project import project

PAGE = DOCS / "how-to" / "replace-a-leaked-link.md"
EVERY_ROUTE_HAS = {
    "unknown-field", "unsupported-media-type", "request-too-large", "bad-input", "unauthenticated",
    "permission-denied", "workspace-not-found", "method-not-allowed", "tenant-state-unavailable",
    "idempotency-key-body-mismatch", "idempotency-key-in-flight", "idempotency-replay-withheld",
}  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path, free_port: int) -> Iterator[Shop]:
    with project(tmp_path / "shop") as made:
        yield Shop(made, free_port)


@pytest.mark.slow
class TestCommands:
    def test_every_command_does_what_it_is_there_for(self, shop: Shop) -> None:
        printed: dict[str, str] = {}
        for block in blocks(PAGE):
            run_id, link, _ = shop.ask()
            waiting = shop.run(run_id)["waitingFor"]
            assert isinstance(waiting, dict)
            typed = block.code.replace("<run-id>", run_id).replace(
                "<wait-id>", waiting["tokens"][0]["tokenId"]
            )
            soon = datetime.now(UTC) + timedelta(hours=1)

            done = shop.project.shell(typed.replace("2026-12-24T18:00:00Z", soon.isoformat()))

            printed[block.code.split("<")[0].strip().splitlines()[-1]] = done.stdout
            assert link not in done.stdout
        assert '"link": "' in printed["abeyance waits rotate"]
        assert 0 == json.loads(printed["abeyance waits revoke"])["links"]
        assert "completed" == json.loads(printed["abeyance runs resume"])["status"]
        assert 6 == len(printed)


class TestTable:
    def test_it_has_every_refusal_of_a_change(self) -> None:
        refused = {
            error
            for operation in OPERATIONS
            if operation.method == "POST"
            for error in operation.every_refusal()
        }
        rows = {error.code: row.status for error in refused if (row := find_row(error)) is not None}

        told = {
            code: int(cells[0].split()[0])
            for cells in tables(PAGE, "What is refused")[0]
            for code in codes(cells[0])
        }

        assert {code: status for code, status in rows.items() if code not in EVERY_ROUTE_HAS} == told
