"""`POST /v1/wait-tokens/{token}/complete`, over a service that does as it is told."""

import json
from typing import Any

import falcon.testing
import pytest
from falcon.asgi import Request

from abeyance.errors import (
    AbeyanceError,
    AnswerInvalidError,
    Issue,
    RateLimitedError,
    StoreUnavailableError,
    WaitTokenClosedError,
)
from abeyance.http import samples
from tests.api.fake_runs import LINK, TOKEN, FakeRuns, api, open_client

JSON = {"Content-Type": "application/json"}


class FullGate:
    async def admit(self, request: Request) -> None:
        raise RateLimitedError(7)


def code(result: falcon.testing.Result) -> str:
    return str(result.json["error"]["code"])


def without_id(result: falcon.testing.Result) -> tuple[Any, ...]:
    """All of an answer but the request's own id."""
    request_id = result.headers["X-Request-Id"]
    headers = {name: value.replace(request_id, "ID") for name, value in result.headers.items()}
    return result.status_code, headers, result.content.replace(request_id.encode(), b"ID")


class TestLink:
    def test_an_answer_is_taken_and_the_reply_says_nothing_else(self) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(LINK, body=samples_body(), headers=JSON)

        assert 200 == result.status_code
        assert b'{"status":"accepted"}' == result.content
        assert "application/json" == result.headers["Content-Type"]
        assert "no-store" == result.headers["Cache-Control"]
        assert samples.ANSWER == runs.only("answer")

    def test_numbers_keep_their_text(self) -> None:
        runs = FakeRuns()
        body = b'{"b": 1.10, "a": [1e2, -0, 123456789012345678901234567890, 1.000000000000000005]}'

        open_client(runs).simulate_post(LINK, body=body, headers=JSON)

        expected = b'{"a":[1e2,-0,123456789012345678901234567890,1.000000000000000005],"b":1.10}'
        assert expected == runs.only("answer")

    @pytest.mark.case("A20")
    @pytest.mark.parametrize("answer", [b"null", b"false", b"0", b'""', b"[]", b"{}"])
    def test_a_falsy_answer_is_an_answer(self, answer: bytes) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(LINK, body=answer, headers=JSON)

        assert 200 == result.status_code
        assert answer == runs.only("answer")

    def test_no_body_is_an_empty_object(self) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(LINK)

        assert 200 == result.status_code
        assert b"{}" == runs.only("answer")

    @pytest.mark.parametrize("sent", ["Bearer nonsense", "Basic YTpi", "Bearer k\xe9y", ""])
    def test_who_answers_is_not_asked(self, sent: str) -> None:
        client = falcon.testing.TestClient(api(FakeRuns()))

        result = client.simulate_post(LINK, body=b"{}", headers={**JSON, "Authorization": sent})

        assert 200 == result.status_code

    def test_an_answer_that_does_not_fit_is_told_where(self) -> None:
        runs = FakeRuns(failures={"answer": AnswerInvalidError([Issue("/pickupAt", "required")])})

        result = open_client(runs).simulate_post(LINK, body=b"{}", headers=JSON)

        assert 400 == result.status_code
        assert "wait-token-output-invalid" == code(result)
        assert {"issues": [{"path": "/pickupAt", "rule": "required"}]} == result.json["error"]["details"]

    @pytest.mark.parametrize("state", ["completed", "timed-out", "cancelled", "unused", "answered"])
    def test_a_closed_wait_says_how_it_closed(self, state: str) -> None:
        runs = FakeRuns(failures={"answer": WaitTokenClosedError(state)})

        result = open_client(runs).simulate_post(LINK, body=b"{}", headers=JSON)

        assert 409 == result.status_code
        assert "wait-token-closed" == code(result)
        assert {"state": state} == result.json["error"]["details"]

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "BREW"])
    @pytest.mark.parametrize("path", [LINK, "/v1/wait-tokens/a/b/complete"])
    def test_only_post_does_anything(self, method: str, path: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_request(method, path, body=b"{}", headers=JSON)

        assert 405 == result.status_code
        assert "POST" == result.headers["Allow"]
        assert [] == runs.calls
        if method != "HEAD":
            assert "method-not-allowed" == code(result)


class TestGuessedLink:
    @pytest.mark.case("A25")
    @pytest.mark.parametrize(
        "token",
        [
            TOKEN[:-1] + "t",
            TOKEN.lower(),
            TOKEN + "=",
            TOKEN + "%3D",
            TOKEN + "%00",
            TOKEN + "/",
            TOKEN + "%2F..",
            "%2e%2e/" + TOKEN,
            "",
            "%E2%80%9C",
            "a" * 100_000,
            samples.TOKEN_ID,
        ],
        ids=lambda token: token[:12],
    )
    def test_a_wrong_link_is_answered_as_an_unknown_one(self, token: str) -> None:
        """Byte for byte, the request's own id apart."""
        runs = FakeRuns()
        client = open_client(runs)
        unknown = client.simulate_post("/v1/wait-tokens/unknown/complete", body=b"{}", headers=JSON)

        wrong = client.simulate_post(f"/v1/wait-tokens/{token}/complete", body=b"{}", headers=JSON)

        assert 404 == unknown.status_code
        assert "wait-token-not-found" == code(unknown)
        assert without_id(unknown) == without_id(wrong)
        assert "answer" not in dict(runs.calls)

    def test_a_percent_encoded_link_is_the_same_link(self) -> None:
        """RFC 3986, 6.2.2.2: an encoded unreserved character is that character."""
        runs = FakeRuns()
        encoded = f"%{ord(TOKEN[0]):02X}{TOKEN[1:]}"

        result = open_client(runs).simulate_post(f"/v1/wait-tokens/{encoded}/complete")

        assert 200 == result.status_code


TEXT = {"Content-Type": "text/plain"}
BIG = b'"' + b"a" * 1_048_576 + b'"'
CLOSED = WaitTokenClosedError("completed")


class TestOrderOfChecks:
    """Each request breaks what is checked first and everything after it: the first is what it is told."""

    @pytest.mark.parametrize(
        ("expected", "method", "gated", "token", "trouble", "headers", "body"),
        [
            ("method-not-allowed", "PUT", True, "unknown", None, TEXT, BIG),
            ("rate-limit-exceeded", "POST", True, "unknown", None, TEXT, BIG),
            ("wait-token-not-found", "POST", False, "unknown", None, TEXT, BIG),
            ("tenant-state-unavailable", "POST", False, TOKEN, StoreUnavailableError(), TEXT, BIG),
            ("unsupported-media-type", "POST", False, TOKEN, None, TEXT, BIG),
            ("request-too-large", "POST", False, TOKEN, None, JSON, BIG),
            ("bad-input", "POST", False, TOKEN, None, JSON, b"{"),
            ("wait-token-closed", "POST", False, TOKEN, None, JSON, b"{}"),
        ],
        ids=["405", "429", "404", "503", "415", "413", "400", "409"],
    )
    def test_the_first_check_that_fails_answers(
        self,
        expected: str,
        method: str,
        gated: bool,
        token: str,
        trouble: AbeyanceError | None,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        failures: dict[str, Exception] = {"answer": CLOSED}
        if trouble is not None:
            failures["open_link"] = trouble
        runs = FakeRuns(failures=failures)
        client = open_client(runs, **({"gate": FullGate()} if gated else {}))

        result = client.simulate_request(
            method, f"/v1/wait-tokens/{token}/complete", body=body, headers=headers
        )

        assert expected == code(result)

    def test_a_refused_flood_never_reaches_the_store(self) -> None:
        runs = FakeRuns()

        result = open_client(runs, gate=FullGate()).simulate_post(LINK)

        assert "7" == result.headers["Retry-After"]
        assert [] == runs.calls


def samples_body() -> bytes:
    return json.dumps(samples.ANSWER_BODY, indent=1).encode()
