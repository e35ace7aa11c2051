"""One wait and what was tried at it, as the reference shows them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from abeyance.engine.waits import ShownWait
from abeyance.http.samples import RUN_ID, TOKEN_ID
from abeyance.journal.attempts import Attempt, StoredAttempts
from abeyance.journal.run import parse_token_id
from abeyance.projections.wait_view import WaitView
from abeyance.world import to_micros

LINK = "https://shop.example.com/v1/wait-tokens/q8Zt3vXo1xYk0c5mJ7nW9bD2fH4sL6pRaE-gT_iUyQs/complete"
EXTEND_BODY = {"until": "2026-10-25T09:00:00Z"}
_PAUSED = datetime(2026, 10, 24, 17, 30, 12, 481_000, tzinfo=UTC)
_KEY, _ORDINAL = parse_token_id(TOKEN_ID) or (UUID(int=0), 1)

WAIT = WaitView(
    id=TOKEN_ID,
    run_id=RUN_ID,
    kind="token",
    state="waiting",
    created_at=_PAUSED,
    name="the carrier's pickup confirmation",
    tool_id="shop.request-pickup",
    tool_version="0.1.0",
    node="pickup",
    line="shop.tools:31",
    due_at=datetime(2026, 10, 25, 9, tzinfo=UTC),
    links=1,
    workspace="default",
    project="default",
)


def _tried(minutes: int, verdict: str, size: int | None) -> Attempt:
    at = to_micros(_PAUSED + timedelta(minutes=minutes))
    return Attempt(RUN_ID, _KEY, _ORDINAL, at, verdict, size, bytes.fromhex("5b0c11d2a49e7f30"))


SHOWN = ShownWait(
    wait=WAIT,
    attempts=StoredAttempts(
        counts={"bad-input": 1, "wait-token-output-invalid": 1},
        newest=[_tried(12, "wait-token-output-invalid", 256), _tried(11, "bad-input", None)],
    ),
)
