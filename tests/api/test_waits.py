"""`/v1/waits` and `/v1/runs/{id}/waits/{wait}`: what is asked of the service, and what is answered."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from abeyance.engine.replies import UsedKey
from abeyance.engine.waits import ListWaits, ShownWait
from abeyance.errors import (
    AbeyanceError,
    RunNotFoundError,
    WaitChangeNotSupportedError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
    WaitTokenNotReachedError,
)
from abeyance.http import waits_schemas as shapes
from abeyance.http.samples import RUN_ID, TOKEN_ID
from abeyance.http.waits_samples import LINK, SHOWN, WAIT
from abeyance.projections.views import Page
from abeyance.projections.wait_view import WaitView
from tests.api.fake_runs import FakeRuns, open_client

PATH = f"/v1/runs/{RUN_ID}/waits/{TOKEN_ID}"
UNTIL = datetime(2026, 10, 25, 9, tzinfo=UTC)


@dataclass
class FakeWaits:
    """A `WaitService` that remembers what it was asked; `failure` is raised instead of an answer."""

    failure: AbeyanceError | None = None
    cursor: str | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure

    async def list(self, query: ListWaits) -> Page[WaitView]:
        self._note("list", query)
        return Page(data=(WAIT,), next_cursor=self.cursor)

    async def get(self, run_id: UUID, wait_id: str) -> WaitView:
        self._note("get", run_id, wait_id)
        return WAIT

    async def show(self, run_id: UUID, wait_id: str) -> ShownWait:
        self._note("show", run_id, wait_id)
        return SHOWN

    async def extend(
        self,
        run_id: UUID,
        wait_id: str,
        until: datetime,
        *,
        actor: str | None = None,
        key: UsedKey | None = None,
    ) -> WaitView:
        self._note("extend", run_id, wait_id, until)
        return WAIT

    async def rotate(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> tuple[WaitView, str]:
        self._note("rotate", run_id, wait_id)
        return WAIT, LINK

    async def revoke(
        self, run_id: UUID, wait_id: str, *, actor: str | None = None, key: UsedKey | None = None
    ) -> WaitView:
        self._note("revoke", run_id, wait_id)
        return WAIT


def client(waits: FakeWaits) -> Any:
    return open_client(FakeRuns(), waits=waits)


class TestPaths:
    @pytest.mark.parametrize("path", [PATH, PATH.replace(":", "%3A"), PATH.replace(":", "%3a")])
    def test_the_colons_of_an_id_come_as_they_are_or_encoded(self, path: str) -> None:
        waits = FakeWaits()

        reply = client(waits).simulate_get(path)

        assert (200, [("show", RUN_ID, TOKEN_ID)]) == (reply.status_code, waits.calls)

    @pytest.mark.parametrize("wait", ["timer:3.b1.2", "code-mismatch", "retry:pickup", "%F0%9F%90%AB"])
    def test_any_one_segment_is_an_id(self, wait: str) -> None:
        waits = FakeWaits()

        client(waits).simulate_get(f"/v1/runs/{RUN_ID}/waits/{wait}")

        assert [("show", RUN_ID, wait.replace("%F0%9F%90%AB", "\N{BACTRIAN CAMEL}"))] == waits.calls

    def test_what_is_no_run_id_is_no_run(self) -> None:
        reply = client(FakeWaits()).simulate_get("/v1/runs/x/waits/y")

        assert (404, "run-not-found") == (reply.status_code, reply.json["error"]["code"])


class TestList:
    def test_every_filter_is_handed_on(self) -> None:
        waits = FakeWaits(cursor="next")

        reply = client(waits).simulate_get(
            "/v1/waits", query_string=f"kind=token&name=a%20b&tool=t.x&run={RUN_ID}&limit=7&cursor=abc"
        )

        assert [
            ("list", ListWaits(kind="token", name="a b", tool="t.x", run_id=RUN_ID, limit=7, cursor="abc"))
        ] == waits.calls
        page = shapes.WaitsPage.model_validate_json(reply.content)
        assert (True, "next", TOKEN_ID) == (page.has_more, page.next_cursor, page.data[0].wait_id)

    @pytest.mark.parametrize(
        ("query", "code"), [("kind=other", "bad-input"), ("limit=0", "bad-input"), ("x=1", "unknown-field")]
    )
    def test_what_it_does_not_take_is_refused(self, query: str, code: str) -> None:
        reply = client(FakeWaits()).simulate_get("/v1/waits", query_string=query)

        assert (400, code) == (reply.status_code, reply.json["error"]["code"])


class TestShow:
    def test_it_shows_what_was_tried_and_no_link(self) -> None:
        reply = client(FakeWaits()).simulate_get(PATH)

        shown = shapes.ShownWait.model_validate_json(reply.content)
        assert ["wait-token-output-invalid", "bad-input"] == [each.verdict for each in shown.attempts.newest]
        assert "wait-tokens" not in reply.text


class TestExtend:
    @pytest.mark.parametrize(
        "until",
        ["2026-10-25T09:00:00Z", "2026-10-25T11:00:00+02:00", "2026-10-25t09:00:00.000000z",
         "2026-10-25T09:00:00.0000001Z"],
    )  # fmt: skip
    def test_a_time_in_any_zone_is_one_moment(self, until: str) -> None:
        waits = FakeWaits()

        reply = client(waits).simulate_post(f"{PATH}/extend", json={"until": until})

        assert (200, [("extend", RUN_ID, TOKEN_ID, UNTIL)]) == (reply.status_code, waits.calls)

    @pytest.mark.parametrize(
        "until",
        ["2026-10-25T09:00:00", "2026-10-25", "tomorrow", "", 1_800_000_000, None, "2026-13-01T00:00:00Z",
         "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-10-25T09:00:00+99:99",
         "2026-10-25T24:00:00Z\n"],
    )  # fmt: skip
    def test_what_is_no_moment_is_refused(self, until: object) -> None:
        waits = FakeWaits()

        reply = client(waits).simulate_post(f"{PATH}/extend", json={"until": until})

        assert (400, "bad-input", []) == (reply.status_code, reply.json["error"]["code"], waits.calls)

    @pytest.mark.parametrize(
        ("body", "code"), [({}, "bad-input"), ({"until": "2026-10-25T09:00:00Z", "x": 1}, "unknown-field")]
    )
    def test_another_shape_is_refused(self, body: object, code: str) -> None:
        reply = client(FakeWaits()).simulate_post(f"{PATH}/extend", json=body)

        assert (400, code) == (reply.status_code, reply.json["error"]["code"])


class TestRotate:
    def test_the_reply_holds_the_new_link(self) -> None:
        reply = client(FakeWaits()).simulate_post(f"{PATH}/rotate")

        assert LINK == shapes.RotatedWait.model_validate_json(reply.content).link
        assert "no-store" == reply.headers["cache-control"]


class TestRevoke:
    def test_the_reply_is_the_wait_without_a_link(self) -> None:
        reply = client(FakeWaits()).simulate_post(f"{PATH}/revoke", json={})

        assert TOKEN_ID == shapes.WaitAnswer.model_validate_json(reply.content).wait_id
        assert "wait-tokens" not in reply.text


REFUSALS = [
    (RunNotFoundError(), 404, {}),
    (WaitTokenNotFoundError(), 404, {}),
    (WaitTokenClosedError("timed-out"), 409, {"state": "timed-out"}),
    (WaitTokenNotReachedError(), 409, {}),
    (WaitChangeNotSupportedError(), 422, {}),
]


class TestRefusals:
    @pytest.mark.parametrize(("failure", "status", "details"), REFUSALS, ids=lambda each: str(each)[:20])
    @pytest.mark.parametrize("change", ["extend", "rotate", "revoke"])
    def test_each_has_its_status_and_code(
        self, change: str, failure: AbeyanceError, status: int, details: dict[str, str]
    ) -> None:
        body = json.dumps({"until": "2026-10-25T09:00:00Z"} if change == "extend" else {})

        reply = client(FakeWaits(failure)).simulate_post(
            f"{PATH}/{change}", body=body, headers={"Content-Type": "application/json"}
        )

        error = reply.json["error"]
        assert (status, failure.code, details) == (reply.status_code, error["code"], error.get("details", {}))
