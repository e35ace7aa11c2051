"""One run, one journal, one audit record, as the reference shows them: written by the code that answers."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from abeyance.http import render
from abeyance.projections.views import (
    AuditRecord,
    FailureView,
    JournalEntry,
    Page,
    RunView,
    TokenView,
    WaitingFor,
)

RUN_ID = UUID("01934f5e-8c00-7c3a-9d51-6f1c2a9e0b7d")
TOKEN_ID = "pause:6f1c2a9e-0b7d-5a51-9c3e-2d8f6a1b4e07:1"
ANSWER = b'{"pickupAt":"2026-10-25T09:00:00Z","pickupId":"pk_7"}'
REQUEST_ID = "4bf92f3577b34da6a3ce929d0e0e4736"

_STARTED = datetime(2026, 10, 24, 17, 30, 12, 481_000, tzinfo=UTC)
_ANSWERED = _STARTED + timedelta(minutes=42)
_REFERENCE = {"scheme": "s1", "sha256": "9c" * 32, "size": 256}

_WAIT = TokenView(
    token_id=TOKEN_ID,
    name="the carrier's pickup confirmation",
    tool_id="shop.request-pickup",
    tool_version="0.1.0",
    node="pickup",
    line="shop.tools:31",
    created_at=_STARTED,
    times_out_at=_STARTED + timedelta(hours=2),
)


def _run(status: str, **more: object) -> RunView:
    fields: dict[str, object] = {
        "id": RUN_ID,
        "status": status,
        "kind": "flow",
        "definition_id": "shop.ship-order",
        "version": "0.1.0",
        "workspace": "default",
        "project": "default",
        "labels": {"team": "shipping"},
        "created_at": _STARTED,
        "updated_at": _STARTED,
        "expires_at": _STARTED + timedelta(days=30),
        **more,
    }
    return RunView(**fields)  # type: ignore[arg-type]


SUSPENDED = _run("suspended", waiting_for=WaitingFor(tokens=(_WAIT,)))
RUNNING = _run("running")
COMPLETED = _run("completed", updated_at=_ANSWERED, completed_at=_ANSWERED, output=ANSWER)
CANCELLED = _run("cancelled", updated_at=_ANSWERED, completed_at=_ANSWERED)
FAILED = _run(
    "failed",
    updated_at=_ANSWERED,
    completed_at=_ANSWERED,
    failure=FailureView(code="wait-token-timed-out", message=None, node="pickup"),
)
_TAKEN = JournalEntry(
    sequence=5,
    kind="wait-token-completed",
    timestamp=_ANSWERED,
    node="pickup",
    payload={"answer": _REFERENCE, "by": "link", "wait": TOKEN_ID},
    digest="5e" * 32,
    kid="8f14e45fceea167a",
    content=ANSWER,
)
_RECORD = AuditRecord(
    index=1207, run_id=RUN_ID, entry=_TAKEN, answer={"size": len(ANSWER), "sha256": "c4" * 32}
)

RUNS_PAGE = render.page(Page(data=(COMPLETED,), next_cursor="MTIwNw"), render.run)
JOURNAL_PAGE = render.page(Page(data=(_TAKEN,), next_cursor="5"), render.journal_entry)
AUDIT_PAGE = render.page(Page(data=(_RECORD,), next_cursor="1207"), render.audit_record)

START_BODY = {"flow": "shop.ship-order", "input": {"orderId": "ord_1001"}, "labels": {"team": "shipping"}}
RESUME_BODY = {
    "waitpointId": TOKEN_ID,
    "value": {"pickupId": "pk_7", "pickupAt": "2026-10-25T09:00:00Z"},
}
ANSWER_BODY = RESUME_BODY["value"]
