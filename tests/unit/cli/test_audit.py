"""`abeyance audit log`."""

import json

from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import RUN_ID, FakeApi

RECORD = {
    "index": 41,
    "runId": RUN_ID,
    "sequence": 7,
    "kind": "wait-token-completed",
    "timestamp": "2026-10-24T17:30:12.481Z",
    "nodeId": "pickup",
    "payload": {"wait": "pause:1"},
    "digest": "00" * 32,
    "kid": "0011223344556677",
    "answer": {"size": 57, "sha256": "ab" * 32},
}


class TestAuditLog:
    def test_filters_are_sent_and_the_page_is_printed(self, api: FakeApi, command: Command) -> None:
        page = {"data": [RECORD], "hasMore": False}
        api.answer("GET /v1/audit/records", page)

        outcome = command(
            "audit", "log", f"--run={RUN_ID}", "--kind=wait-token-completed", "--after=0", "--limit=9"
        )

        assert page == json.loads(outcome.out)
        assert (
            f"/v1/audit/records?after=0&limit=9&runId={RUN_ID}&kind=wait-token-completed" == api.asked[0].path
        )

    def test_a_table_shows_size_and_digest_of_answers(self, api: FakeApi, command: Command) -> None:
        erased = RECORD | {"index": 42, "answer": {"erased": True}}
        api.answer("GET /v1/audit/records", {"data": [RECORD, erased], "hasMore": True, "nextCursor": "42"})

        outcome = command("audit", "log", "--table")

        _, first, second = outcome.out.splitlines()
        assert ["41", RUN_ID, "7"] == first.split()[:3]
        assert f"57 bytes {'ab' * 32}" in first
        assert second.endswith("erased")
        assert "--after=42" in outcome.err
