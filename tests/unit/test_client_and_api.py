"""The client and the API hold together: one reads what the other writes, with no server between."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from abeyance.client import Client, results
from abeyance.client import errors as client_errors
from abeyance.client.encoding import encode_members
from abeyance.http import render, samples
from abeyance.http.errors import TABLE, body_of
from abeyance.http.schemas import (
    AuditQuery,
    JournalQuery,
    ResumeBody,
    RunsQuery,
    StartRunBody,
    read_body,
    read_query,
)
from abeyance.journal.canonical import canonicalise
from abeyance.projections.views import OtherView, RunView, WaitingFor
from tests.unit.cli.fake_api import FakeApi, a_run, serving


def read_run(view: RunView) -> results.Run:
    source = render.run(view).decode()
    return results.parse_run(json.loads(source), source)


class TestRuns:
    @pytest.mark.parametrize(
        "view", [samples.SUSPENDED, samples.RUNNING, samples.COMPLETED, samples.CANCELLED, samples.FAILED]
    )
    def test_every_field_arrives(self, view: RunView) -> None:
        run = read_run(view)

        assert (str(view.id), view.status, view.kind, view.definition_id, view.version, view.labels) == (
            run.id,
            run.status,
            run.kind,
            run.definition_id,
            run.version,
            run.labels,
        )
        assert (view.created_at, view.updated_at, view.expires_at, view.completed_at) == (
            run.created_at,
            run.updated_at,
            run.expires_at,
            run.completed_at,
        )
        assert (json.loads(view.output) if view.output else None) == run.output
        assert (view.failure.code if view.failure else None) == (run.failure.code if run.failure else None)
        assert (view.status == "suspended") == (run.waiting_for is not None)

    def test_what_it_waits_for_arrives(self) -> None:
        due = datetime(2026, 10, 24, 18, tzinfo=UTC)
        other = OtherView(
            what="code-mismatch", node="3", due_at=due, details={"recorded": "a", "requested": "b"}
        )
        asked = samples.SUSPENDED.waiting_for
        assert asked is not None
        waiting_for = WaitingFor(tokens=asked.tokens, other=(other,))

        found = read_run(replace(samples.SUSPENDED, waiting_for=waiting_for)).waiting_for

        assert found is not None
        [token], [parked] = found.tokens, found.other
        assert (
            asked.tokens[0].token_id,
            asked.tokens[0].name,
            asked.tokens[0].node,
            asked.tokens[0].line,
        ) == (
            token.token_id,
            token.name,
            token.node_id,
            token.line,
        )
        assert asked.tokens[0].times_out_at == token.times_out_at
        assert ("code-mismatch", "3", due, other.details) == (
            parked.what,
            parked.node_id,
            parked.due_at,
            parked.details,
        )

    @pytest.mark.parametrize(
        ("page", "parse"),
        [
            (samples.RUNS_PAGE, results.parse_runs),
            (samples.JOURNAL_PAGE, results.parse_journal),
            (samples.AUDIT_PAGE, results.parse_audit),
        ],
    )
    def test_pages_arrive(self, page: bytes, parse: Any) -> None:
        found = parse(json.loads(page), page.decode())

        assert (len(json.loads(page)["data"]), json.loads(page)["hasMore"]) == (
            len(found.data),
            found.has_more,
        )


class TestRefusals:
    @pytest.mark.parametrize("row", TABLE, ids=lambda row: row.example.code)
    def test_each_code_has_its_class_and_its_details(self, row: Any) -> None:
        refused = json.loads(body_of(row, row.example, "req-1"))["error"]

        error = client_errors.error_of(
            client_errors.Refusal(
                status=row.status,
                code=refused["code"],
                message=refused["message"],
                details=refused.get("details", {}),
                request_id=refused["requestId"],
                retry_after_s=None,
            )
        )

        assert row.example.code == error.code
        assert type(error) is not client_errors.ApiError or error.code in (
            "unsupported-media-type",
            "method-not-allowed",
        )
        assert getattr(row.example, "issues", ()) == error.issues
        if isinstance(error, client_errors.WaitTokenClosed):
            assert row.example.state == error.state
        if isinstance(error, client_errors.RunAlreadyTerminal):
            assert row.example.status == error.run_status


class TestRequests:
    def test_bodies_are_what_the_api_reads(self) -> None:
        with serving() as api:
            api.answer("POST /v1/runs", a_run())
            api.answer("POST /v1/runs/r/resume", a_run())
            _start_and_resume(api)

        start = read_body(StartRunBody, canonicalise(api.asked[0].body))
        resume = read_body(ResumeBody, canonicalise(api.asked[1].body))

        assert (("flow", "f", "1"), b"[1.10]", False, 7, {"a": "b"}, "p", "q") == (
            start.definition(),
            start.input,
            start.wait,
            start.ttl_ms,
            start.labels,
            start.participant,
            start.project,
        )
        assert ("pause:1", b"null") == (resume.waitpoint_id, resume.value)

    def test_a_version_may_be_left_out(self) -> None:
        assert ("flow", "f", None) == read_body(StartRunBody, encode_members({"flow": "f"})).definition()

    def test_queries_are_what_the_api_reads(self) -> None:
        with serving() as api:
            _ask(api)
        runs, journal, audit = (request.path.partition("?")[2].encode() for request in api.asked)

        query = read_query(RunsQuery, runs)
        assert ("failed", "f", "a=b&c", 3, "c") == (
            query.status,
            query.definition,
            query.label,
            query.limit,
            query.cursor,
        )
        events = read_query(JournalQuery, journal)
        assert (4, 5, True) == (events.after, events.limit, events.content)
        records = read_query(AuditQuery, audit)
        assert (0, 6, str(samples.RUN_ID), "started") == (
            records.after,
            records.limit,
            records.run_id,
            records.kind,
        )

    def test_nothing_is_sent_for_what_is_left_out(self) -> None:
        assert b'{"flow":"f"}' == encode_members({"flow": "f", "input": None})


def _start_and_resume(api: FakeApi) -> None:
    with Client(api.url) as client:
        client.runs.start(
            flow="f@1",
            input=[Decimal("1.10")],
            wait=False,
            ttl_ms=7,
            labels={"a": "b"},
            participant="p",
            project="q",
        )
        client.runs.resume("r", waitpoint_id="pause:1", value=None)


def _ask(api: FakeApi) -> None:
    page = {"data": [], "hasMore": False}
    for route in ("/v1/runs", "/v1/runs/r/journal", "/v1/audit/records"):
        api.answer(f"GET {route}", page)
    with Client(api.url) as client:
        client.runs.list(status="failed", definition="f", label=("a", "b&c"), limit=3, cursor="c")
        client.runs.journal("r", after=4, limit=5, content=True)
        client.audit.log(after=0, limit=6, run_id=samples.RUN_ID, kind="started")


class TestUnavailable:
    @pytest.mark.parametrize("code", ["tenant-state-unavailable", "signing-key-retired"])
    def test_a_process_that_cant_write_now_is_one_error_to_the_app(self, code: str) -> None:
        """Whether its store is gone or its signing key: the same request works later, or elsewhere."""
        refusal = client_errors.Refusal(503, code, "", {}, None, 1)

        error = client_errors.error_of(refusal)

        assert (client_errors.Unavailable, code) == (type(error), error.code)
