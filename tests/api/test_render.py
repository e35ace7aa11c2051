"""The bytes that are put together by hand: they are the JSON that the models describe."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeyance.http import answers, render, samples
from abeyance.http.schemas import Wire
from abeyance.projections.views import (
    AuditRecord,
    FailureView,
    JournalEntry,
    OtherView,
    Page,
    RunView,
    TokenView,
    WaitingFor,
)

MOMENT = datetime(2026, 10, 24, 17, 30, 12, 481_999, tzinfo=UTC)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
moments = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - given a zone
contents = st.sampled_from([b"null", b"0", b"-0.0", b"1.10", b"1e400", b'"\xc3\xa4\\u0000"', b'{"a":[]}'])
payloads = st.dictionaries(
    texts, st.integers() | texts | st.none() | st.dictionaries(texts, texts), max_size=3
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


tokens = st.builds(
    TokenView,
    token_id=texts, name=maybe(texts), tool_id=texts, tool_version=texts, node=texts, line=texts,
    created_at=moments, times_out_at=moments,
)  # fmt: skip
others = st.builds(
    OtherView,
    what=texts, node=maybe(texts), due_at=maybe(moments), details=maybe(st.dictionaries(texts, texts)),
)  # fmt: skip
waits = st.builds(
    WaitingFor,
    tokens=st.lists(tokens, max_size=2).map(tuple), other=st.lists(others, max_size=2).map(tuple),
    approvals=st.just(()), signals=st.just(()),
)  # fmt: skip
runs = st.builds(
    RunView,
    id=st.uuids(),
    status=st.sampled_from(["pending", "running", "suspended", "completed", "failed", "cancelled"]),
    kind=st.sampled_from(["flow", "script", "agent"]),
    definition_id=texts, version=texts, workspace=texts, project=texts,
    labels=st.dictionaries(texts, texts, max_size=3),
    created_at=moments, updated_at=moments, expires_at=moments, completed_at=maybe(moments),
    output=maybe(contents),
    failure=maybe(st.builds(FailureView, code=texts, message=maybe(texts), node=maybe(texts))),
    parent=maybe(st.uuids()),
    waiting_for=maybe(waits),
)  # fmt: skip
entries = st.builds(
    JournalEntry,
    sequence=st.integers(1), kind=texts, timestamp=moments, node=maybe(texts), payload=payloads,
    digest=texts, kid=texts, content=maybe(contents),
)  # fmt: skip


def parsed(model: type[Wire], rendered: bytes) -> Any:
    """The JSON value, after the model has accepted it."""
    value = json.loads(rendered, parse_constant=pytest.fail)
    model.model_validate(value)
    return value


def page_of(render_item: Callable[[Any], bytes], item: object) -> bytes:
    return render.page(Page(data=(item, item), next_cursor=None), render_item)


class TestModels:
    """Whatever a view holds, its bytes are JSON of the described shape."""

    @given(view=runs)
    def test_a_run(self, view: RunView) -> None:
        run = parsed(answers.Run, render.run(view))

        assert view.definition_id == run[f"{view.kind}Id"]
        assert view.labels == run["labels"]
        assert ("waitingFor" in run) == (view.status == "suspended" and view.waiting_for is not None)
        assert ("output" in run) == (view.output is not None)

    @given(entry=entries)
    def test_a_journal(self, entry: JournalEntry) -> None:
        page = parsed(answers.JournalPage, page_of(render.journal_entry, entry))

        assert 2 == len(page["data"])
        assert entry.payload == page["data"][0]["payload"]

    @given(entry=entries, answer=maybe(st.just({"size": 7, "sha256": "0" * 64})))
    def test_an_audit_log(self, entry: JournalEntry, answer: Any) -> None:
        record = AuditRecord(index=0, run_id=UUID(int=7), entry=entry, answer=answer)

        page = parsed(answers.AuditPage, page_of(render.audit_record, record))

        assert "content" not in page["data"][0]


class TestRun:
    def test_only_a_suspended_run_says_what_it_waits_for(self) -> None:
        waiting = parsed(answers.Run, render.run(samples.SUSPENDED))["waitingFor"]

        assert {"approvals", "other", "tokens", "signals"} == waiting.keys()
        assert {
            "tokenId": samples.TOKEN_ID,
            "name": "the carrier's pickup confirmation",
            "tool": {"id": "shop.request-pickup", "version": "0.1.0"},
            "nodeId": "pickup",
            "line": "shop.tools:31",
            "createdAt": "2026-10-24T17:30:12.481Z",
            "timesOutAt": "2026-10-24T19:30:12.481Z",
        } == waiting["tokens"][0]

    def test_a_failure_whose_message_was_erased_has_none(self) -> None:
        failure = parsed(answers.Run, render.run(samples.FAILED))["failure"]

        assert {"code": "wait-token-timed-out", "message": None, "nodeId": "pickup"} == failure

    @pytest.mark.case("D10")
    @pytest.mark.parametrize(
        "number", [b"9007199254740993", b"1.10", b"-0", b"1e2", b"1.000000000000000005", b"1" * 1_000]
    )
    def test_an_outputs_number_keeps_its_text(self, number: bytes) -> None:
        view = RunView(**{**_fields(samples.COMPLETED), "output": number})

        assert render.run(view).endswith(b',"output":' + number + b"}")


class TestAuditRecord:
    def record(self, payload: dict[str, object], answer: dict[str, object] | None) -> Any:
        entry = JournalEntry(
            sequence=5, kind="wait-token-completed", timestamp=MOMENT, node=None, payload=payload,
            digest="d", kid="k", content=samples.ANSWER,
        )  # fmt: skip
        record = AuditRecord(index=12, run_id=samples.RUN_ID, entry=entry, answer=answer)
        return json.loads(render.audit_record(record))

    def test_it_shows_an_answers_size_and_digest_never_the_answer(self) -> None:
        record = self.record({"answer": {}}, {"size": 53, "sha256": "c4" * 32})

        assert {"size": 53, "sha256": "c4" * 32} == record["answer"]
        assert "content" not in record

    def test_an_answer_that_is_gone_is_said_to_be(self) -> None:
        assert {"erased": True} == self.record({"answer": {}}, None)["answer"]

    def test_an_event_without_an_answer_says_nothing_of_one(self) -> None:
        assert "answer" not in self.record({}, None)


class TestFormatTime:
    @pytest.mark.parametrize(
        ("moment", "expected"),
        [
            (MOMENT, "2026-10-24T17:30:12.481Z"),
            (MOMENT.replace(microsecond=0), "2026-10-24T17:30:12.000Z"),
            (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
            (datetime.max.replace(tzinfo=UTC) - timedelta(days=1), "9999-12-30T23:59:59.999Z"),
        ],
    )
    def test_it_is_utc_with_milliseconds_cut_off(self, moment: datetime, expected: str) -> None:
        assert expected == render.format_time(moment)


def _fields(view: RunView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in RunView.__dataclass_fields__}
