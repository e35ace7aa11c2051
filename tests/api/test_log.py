"""The log's routes: what they answer, in which type, and what they refuse."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import falcon.testing
import pytest

from abeyance.audit.export import Filter
from abeyance.http import samples
from tests.api.fake_runs import AUTHORIZED, FakeLog, FakeRuns, api

RUN = str(samples.RUN_ID)


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def client(log: FakeLog) -> falcon.testing.TestClient:
    return falcon.testing.TestClient(api(FakeRuns(), audit=log), headers=AUTHORIZED)


class TestReading:
    def test_the_checkpoint_is_text(self, client: falcon.testing.TestClient) -> None:
        answer = client.simulate_get("/v1/audit/log/checkpoint")

        assert (200, "text/plain; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
        assert answer.text.endswith("— log.example/runs c2ln\n")

    def test_a_tile_is_bytes(self, client: falcon.testing.TestClient) -> None:
        answer = client.simulate_get("/v1/audit/log/tile/0/x001/000.p/1")

        assert (200, b"\x00\xff" * 16) == (answer.status_code, answer.content)

    @pytest.mark.parametrize("path", ["0/000", "", "../checkpoint", "0/x001/000.p/1/"])
    def test_a_tile_that_is_none_is_not_found(self, client: falcon.testing.TestClient, path: str) -> None:
        assert 404 == client.simulate_get(f"/v1/audit/log/tile/{path}").status_code

    def test_a_record_has_a_proof(self, client: falcon.testing.TestClient) -> None:
        assert "index 0" in client.simulate_get("/v1/audit/records/0/proof").text
        assert 404 == client.simulate_get("/v1/audit/records/1/proof").status_code

    @pytest.mark.parametrize("path", ["log/checkpoint", "log/tile/0/000", "records/0/proof"])
    def test_nobody_reads_it_without_a_key(self, client: falcon.testing.TestClient, path: str) -> None:
        answer = client.simulate_get(f"/v1/audit/{path}", headers={"Authorization": "Bearer wrong"})

        assert 401 == answer.status_code


class TestExports:
    def test_an_export_is_streamed(self, client: falcon.testing.TestClient, log: FakeLog) -> None:
        answer = client.simulate_post("/v1/audit/exports", json={"all": True})

        assert (200, b'{"abeyance-bundle":1}\n{"end":{}}\n') == (answer.status_code, answer.content)
        assert [(Filter(), "deployment")] == log.exported

    def test_a_part_is_asked_for_by_run_and_time(
        self, client: falcon.testing.TestClient, log: FakeLog
    ) -> None:
        client.simulate_post(
            "/v1/audit/exports",
            json={"run": RUN, "since": "2026-12-01T00:00:00Z", "until": "2026-12-02T00:00:00+01:00"},
        )

        since = datetime(2026, 12, 1, tzinfo=UTC)
        (wanted, _) = log.exported[0]
        assert (UUID(RUN), since, datetime(2026, 12, 1, 23, tzinfo=UTC)) == (
            wanted.run,
            wanted.since,
            wanted.until,
        )

    @pytest.mark.parametrize(
        "body",
        [{}, {"all": False}, {"all": True, "run": RUN}, {"run": "1"}, {"since": "yesterday"},
         {"since": "2026-12-01T00:00:00"}, {"all": 1}, {"every": True}],
    )  # fmt: skip
    def test_anything_else_is_refused_and_nothing_is_handed_out(
        self, client: falcon.testing.TestClient, log: FakeLog, body: Any
    ) -> None:
        answer = client.simulate_post("/v1/audit/exports", json=body)

        assert (400, []) == (answer.status_code, log.exported)
