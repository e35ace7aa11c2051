"""What is noted of requests with links, and that a killed link answers as one that never was."""

from typing import Any

import falcon.testing
import pytest

from abeyance.errors import (
    AnswerInvalidError,
    RateLimitedError,
    StoreUnavailableError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
)
from abeyance.http.authentication import AuthenticationOff
from abeyance.http.link_attempts import QueuedNotes, declared_size
from abeyance.http.resources.links import LinkGate, OpenGate
from abeyance.http.samples import RUN_ID, TOKEN_ID
from tests.api.fake_runs import LINK, TOKEN, FakeRuns, api

FITS: dict[str, Any] = {"body": b'{"pickupId":"pk_7"}', "headers": {"Content-Type": "application/json"}}
UNREADABLE: list[dict[str, Any]] = [
    {"body": b"no", "headers": {"Content-Type": "application/json"}},
    {"body": b"{}", "headers": {"Content-Type": "text/plain"}},
    {"body": b" " * 1_048_577, "headers": {"Content-Type": "application/json"}},
]


class Noted:
    """Takes what `LinkAttempts.note` takes."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, int | None]] = []

    def note(self, run_id: object, wait_id: str, *, verdict: str, size: int | None, client: bytes) -> None:
        assert (RUN_ID, TOKEN_ID, b"somebody") == (run_id, wait_id, client)
        self.notes.append((verdict, size))


class ClosedGate:
    """Lets nobody in."""

    async def admit(self, request: object) -> None:
        raise RateLimitedError(3)


def post(
    runs: FakeRuns, noted: Noted, *, path: str = LINK, gate: LinkGate | None = None, **sent: Any
) -> falcon.testing.Result:
    notes = QueuedNotes(noted, lambda scope: b"somebody")  # type: ignore[arg-type] # what is used of it
    app = api(runs, auth=AuthenticationOff(), notes=notes, gate=gate or OpenGate())
    return falcon.testing.TestClient(app).simulate_post(path, **sent)


class TestNotes:
    def test_an_accepted_answer_is_noted_with_its_size(self) -> None:
        noted = Noted()

        post(FakeRuns(), noted, **FITS)

        assert [("accepted", 19)] == noted.notes

    def test_a_check_is_noted_as_one(self) -> None:
        noted = Noted()

        post(FakeRuns(), noted, params={"check": "true"}, **FITS)

        assert [("acceptable", 19)] == noted.notes

    @pytest.mark.parametrize(
        "error", [AnswerInvalidError(()), WaitTokenClosedError("completed"), StoreUnavailableError()]
    )
    def test_a_refusal_is_noted_by_its_code(self, error: Exception) -> None:
        noted = Noted()

        post(FakeRuns(failures={"answer": error}), noted, **FITS)

        assert [(error.code, 19)] == noted.notes  # type: ignore[attr-defined] # ours

    @pytest.mark.parametrize(
        ("sent", "code"),
        [*zip(UNREADABLE, ["bad-input", "unsupported-media-type", "request-too-large"], strict=True)],
    )
    def test_a_body_that_cannot_be_read_is_noted(self, sent: dict[str, Any], code: str) -> None:
        noted = Noted()

        post(FakeRuns(), noted, **sent)

        assert [(code, len(sent["body"]))] == noted.notes

    def test_a_request_over_the_limit_is_not_noted(self) -> None:
        noted = Noted()

        reply = post(FakeRuns(), noted, gate=ClosedGate(), **FITS)

        assert (429, []) == (reply.status_code, noted.notes)

    def test_an_unknown_link_is_not_noted(self) -> None:
        noted = Noted()

        reply = post(FakeRuns(), noted, path=LINK.replace(TOKEN, "x" * 43), **FITS)

        assert (404, []) == (reply.status_code, noted.notes)


class TestKilledLink:
    @pytest.mark.parametrize("sent", UNREADABLE)
    def test_it_is_unknown_before_anything_else_is_wrong(self, sent: dict[str, Any]) -> None:
        """The process still knew it: what it is refused with comes from the rows, and is noted nowhere."""
        noted = Noted()

        reply = post(FakeRuns(failures={"confirm": WaitTokenNotFoundError()}), noted, **sent)

        unknown = post(FakeRuns(), noted, path=LINK.replace(TOKEN, "x" * 43), **sent)
        assert (404, []) == (reply.status_code, noted.notes)
        same = [
            (result.json["error"]["code"], result.json["error"]["message"]) for result in (reply, unknown)
        ]
        assert same[0] == same[1]

    def test_it_is_unknown_where_only_the_answer_finds_out(self) -> None:
        noted = Noted()

        reply = post(FakeRuns(failures={"answer": WaitTokenNotFoundError()}), noted, **FITS)

        assert (404, []) == (reply.status_code, noted.notes)


class TestDeclaredSize:
    @pytest.mark.parametrize(
        ("headers", "size"),
        [
            ([], None), ([(b"content-length", b"12")], 12), ([(b"content-length", b"x")], None),
            ([(b"content-length", b"1" * 40)], None),
            ([(b"content-length", b"1"), (b"content-length", b"1")], None),
        ],
    )  # fmt: skip
    def test_it_is_what_the_request_says(self, headers: list[tuple[bytes, bytes]], size: int | None) -> None:
        assert size == declared_size(headers)
