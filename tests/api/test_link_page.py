"""`/w/{token}`: a link's page for a person, over a service that does as it is told."""

import html
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import falcon.testing
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from abeyance.console.app import create_app
from abeyance.engine.questions import Question
from abeyance.errors import (
    AbeyanceError,
    AnswerInvalidError,
    Issue,
    ProjectSuspendedError,
    StoreUnavailableError,
    TenantClosingError,
    TenantSuspendedError,
    WaitTokenClosedError,
)
from abeyance.http.app import HttpServices
from abeyance.http.authentication import DeploymentKey
from abeyance.world import SystemWorld
from tests.api.fake_runs import KEY, TOKEN, FakeRuns
from tests.api.test_links import FullGate, without_id

PAGE = f"/w/{TOKEN}"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}


class Pickup(BaseModel):
    """The carrier comes."""

    kind: Literal["pickup"]
    pickup_id: str = Field(alias="pickupId", max_length=12, description='As on the "label" <here>.')


class Declined(BaseModel):
    kind: Literal["declined"]
    reason: str


SCHEMA = TypeAdapter(Annotated[Pickup | Declined, Field(discriminator="kind")]).json_schema(by_alias=True)
FILLED = {"c": "0", "v/~b0/pickupId": "pk_7"}
ANSWER = b'{"kind":"pickup","pickupId":"pk_7"}'


def asked(**more: Any) -> FakeRuns:
    fields: dict[str, Any] = {
        "name": "the <carrier>'s confirmation",
        "schema": SCHEMA,
        "state": "open",
        **more,
    }
    return FakeRuns(question=Question(**fields))


def client(runs: FakeRuns, **more: Any) -> falcon.testing.TestClient:
    services = HttpServices(runs=runs, auth=DeploymentKey(KEY), world=SystemWorld(), **more)
    return falcon.testing.TestClient(create_app(services))


def post(runs: FakeRuns, fields: dict[str, str], path: str = PAGE, **more: Any) -> falcon.testing.Result:
    return client(runs, **more).simulate_post(path, body=urlencode(fields), headers=FORM)


def text(result: falcon.testing.Result) -> str:
    """What a person reads."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", result.text, flags=re.S))


class TestPage:
    def test_it_says_what_is_asked_and_until_when(self) -> None:
        runs = asked(times_out_at=datetime(2026, 10, 25, 9, 5, tzinfo=UTC))

        result = client(runs).simulate_get(PAGE)

        assert 200 == result.status_code
        assert "text/html; charset=utf-8" == result.headers["Content-Type"]
        assert "The <carrier>'s confirmation" in text(result)
        assert "25 October 2026, 09:05 UTC" in text(result)
        assert "The carrier comes." in text(result)

    @pytest.mark.case("C01")
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    @pytest.mark.parametrize(
        "query", ["", "output={}", "c=0&v/~b0/pickupId=pk_7", "as=json&v={}", "check=true"]
    )
    def test_to_look_at_it_takes_nothing(self, method: str, query: str) -> None:
        """Programs open links to see whether they are harmful."""
        runs = asked()
        prefetch = {"Purpose": "prefetch", "Content-Type": FORM["Content-Type"]}

        result = client(runs).simulate_request(
            method, PAGE, query_string=query, body=urlencode(FILLED), headers=prefetch
        )

        assert 200 == result.status_code
        assert [("open_link", TOKEN), ("ask", None)] == runs.calls

    def test_what_its_author_wrote_is_text(self) -> None:
        result = client(asked()).simulate_get(PAGE)

        assert "<carrier>" not in result.text
        assert "<here>" not in result.text

    def test_nothing_runs_and_nothing_is_loaded_or_framed_or_kept(self) -> None:
        result = client(asked()).simulate_get(PAGE)

        policy = result.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "no-referrer" == result.headers["Referrer-Policy"]
        assert "no-store" == result.headers["Cache-Control"]
        assert "noindex, nofollow" == result.headers["X-Robots-Tag"]
        assert "DENY" == result.headers["X-Frame-Options"]
        assert "Set-Cookie" not in result.headers
        assert "<script" not in result.text
        assert [] == re.findall(r"""(?:src|href|action)=["'](?![?#]|data:,)""", result.text)

    def test_a_name_turns_nothing_around_itself(self) -> None:
        """Bidirectional controls in a name reach no further than the name."""
        result = client(asked(name="\u202egnp.exe")).simulate_get(PAGE)

        assert "<bdi>\u202egnp.exe</bdi>" in result.text

    @pytest.mark.parametrize("state", ["completed", "answered", "timed-out", "cancelled", "unused"])
    def test_a_closed_wait_says_so_and_has_no_form(self, state: str) -> None:
        result = client(asked(state=state)).simulate_get(PAGE)

        assert 200 == result.status_code
        assert "<form" not in result.text
        assert re.search("answered|passed|no longer", text(result))

    def test_it_asks_nobody_who_they_are(self) -> None:
        assert 200 == client(asked()).simulate_get(PAGE, headers={"Authorization": "Bearer no"}).status_code


class TestSending:
    def test_the_form_is_the_answer(self) -> None:
        runs = asked()

        result = post(runs, FILLED)

        assert 200 == result.status_code
        assert "Your answer was taken" in text(result)
        assert ANSWER == runs.only("answer")

    def test_json_is_the_answer_where_json_is_asked_for(self) -> None:
        runs = asked()

        result = post(runs, {"v": ' {"kind":"declined", "reason": 1.50}'}, PAGE + "?as=json")

        assert 200 == result.status_code
        assert b'{"kind":"declined","reason":1.50}' == runs.only("answer")

    def test_json_that_does_not_fit_is_told_where(self) -> None:
        runs = asked()
        runs.failures["answer"] = AnswerInvalidError([Issue("/reason", "required")])

        result = post(runs, {"v": '{"kind": "declined"}'}, PAGE + "?as=json")

        assert 400 == result.status_code
        assert "/reason: required" in text(result)

    def test_a_field_left_empty_comes_back_with_what_was_typed_in_the_others(self) -> None:
        runs = asked()

        result = post(runs, {"c": "0", "v/~b0/pickupId": " ", "v/~b1/reason": 'a "b" <c>'})

        assert 400 == result.status_code
        assert "Pickup ID: Fill this in." in text(result)
        assert "a &#34;b&#34; &lt;c&gt;" in result.text
        assert ["open_link", "ask", "check"] == [name for name, _ in runs.calls]

    def test_a_refused_value_comes_back_at_its_field(self) -> None:
        runs = asked()
        runs.failures["answer"] = AnswerInvalidError(
            [Issue("/pickupId", "maxLength"), Issue("/reason", "required")]
        )

        result = post(runs, {"c": "0", "v/~b0/pickupId": "much too long"})

        assert 400 == result.status_code
        assert "Pickup ID: Write at most 12 characters." in text(result)
        assert 'value="much too long"' in result.text
        assert "Error: " in result.text.partition("</title>")[0]

    def test_an_answer_refused_as_a_whole_says_so(self) -> None:
        runs = asked()
        runs.failures["answer"] = AnswerInvalidError([Issue("", "ValueError")])

        result = post(runs, FILLED)

        assert "as a whole it isn't accepted" in text(result)
        assert 'value="pk_7"' in result.text

    @pytest.mark.parametrize("state", ["completed", "answered", "timed-out", "cancelled", "unused"])
    @pytest.mark.parametrize("fields", [FILLED, {}], ids=["filled", "empty"])
    def test_a_closed_wait_is_told_before_what_is_wrong_with_the_answer(
        self, state: str, fields: dict[str, str]
    ) -> None:
        closed = WaitTokenClosedError(state)
        runs = asked(state=state)
        runs.failures |= {"answer": closed, "check": closed}

        result = post(runs, fields)

        assert 409 == result.status_code
        assert "<form" not in result.text

    def test_a_busy_store_loses_nothing_of_what_was_typed(self) -> None:
        runs = asked()
        runs.failures["answer"] = StoreUnavailableError()

        result = post(runs, FILLED)

        assert 503 == result.status_code
        assert "Retry-After" in result.headers
        assert 'value="pk_7"' in result.text


class TestOrderOfChecks:
    """As at the link: each request breaks what is checked first and everything after it."""

    @pytest.mark.parametrize(
        ("status", "method", "gated", "token", "trouble", "headers", "body"),
        [
            (405, "PUT", True, "unknown", None, JSON, b"x" * 1_048_577),
            (429, "POST", True, "unknown", None, JSON, b"x" * 1_048_577),
            (404, "POST", False, "unknown", None, JSON, b"x" * 1_048_577),
            (503, "POST", False, TOKEN, StoreUnavailableError(), JSON, b"x" * 1_048_577),
            (415, "POST", False, TOKEN, None, JSON, b"x" * 1_048_577),
            (413, "POST", False, TOKEN, None, FORM, b"x" * 1_048_577),
            (400, "POST", False, TOKEN, None, FORM, b"v=1&v=2"),
            (409, "POST", False, TOKEN, None, FORM, b""),
        ],
        ids=lambda value: str(value) if isinstance(value, int) else None,
    )
    def test_the_first_check_that_fails_answers(
        self,
        status: int,
        method: str,
        gated: bool,
        token: str,
        trouble: AbeyanceError | None,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        runs = asked()
        runs.failures |= {"answer": WaitTokenClosedError("unused"), "check": WaitTokenClosedError("unused")}
        if trouble is not None:
            runs.failures["open_link"] = trouble
        gate = {"gate": FullGate()} if gated else {}

        result = client(runs, **gate).simulate_request(method, f"/w/{token}", body=body, headers=headers)

        assert status == result.status_code
        assert "answer" not in dict(runs.calls)

    def test_a_refused_flood_is_told_when_to_come_back_and_never_reaches_the_store(self) -> None:
        runs = asked()

        for result in (post(runs, FILLED, gate=FullGate()), client(runs, gate=FullGate()).simulate_get(PAGE)):
            assert (429, "7") == (result.status_code, result.headers["Retry-After"])
            assert "reload this page" in text(result)
        assert [] == runs.calls

    @pytest.mark.parametrize("method", ["GET", "POST"])
    @pytest.mark.parametrize("kind", [TenantSuspendedError, TenantClosingError, ProjectSuspendedError])
    def test_stopped_work_is_told_before_the_form_is_read(
        self, method: str, kind: type[AbeyanceError]
    ) -> None:
        runs = asked()
        runs.failures["open_link"] = kind()

        result = client(runs).simulate_request(method, PAGE, body=b"x", headers=JSON)

        assert 409 == result.status_code
        assert "Whoever asked has stopped this work" in text(result)

    @pytest.mark.case("C14")
    def test_a_percent_sign_that_escapes_nothing_is_one(self) -> None:
        runs = asked()

        post_raw = client(runs).simulate_post(PAGE, body=b"c=1&v/~b1/reason=100%25+or+%zz+%00", headers=FORM)

        assert 200 == post_raw.status_code
        assert b'{"kind":"declined","reason":"100% or %zz \\u0000"}' == runs.only("answer")

    @pytest.mark.case("C14")
    @pytest.mark.parametrize(
        "body",
        [
            b"c=0&c=0",
            b"unknown=1",
            b"v/~b7/x=1",
            b"c=%ff",
            b"c=\xff",
            b"&".join(b"v%d=" % number for number in range(10_001)),
        ],
        ids=["twice", "unknown", "no such branch", "not UTF-8", "raw bytes", "too many"],
    )
    def test_a_form_that_cannot_be_read_is_refused(self, body: bytes) -> None:
        runs = asked()

        result = client(runs).simulate_post(PAGE, body=body, headers=FORM)

        assert 400 == result.status_code
        assert not {"answer", "check"} & dict(runs.calls).keys()

    @pytest.mark.parametrize(
        "sent",
        [
            "application/json",
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded; charset=latin-1",
            "",
        ],
    )
    def test_only_a_plain_form_in_utf_8_is_read(self, sent: str) -> None:
        result = client(asked()).simulate_post(
            PAGE, body=b"c=0", headers={"Content-Type": sent} if sent else {}
        )

        assert 415 == result.status_code

    @pytest.mark.parametrize("depth", [100, 101])
    def test_json_nests_as_deep_as_at_the_link(self, depth: int) -> None:
        runs = asked()

        result = post(runs, {"v": "[" * depth + "]" * depth}, PAGE + "?as=json")

        assert (200 if depth == 100 else 400) == result.status_code
        assert ("answer" in dict(runs.calls)) == (depth == 100)


class TestWrongLink:
    @pytest.mark.parametrize("method", ["GET", "POST"])
    @pytest.mark.parametrize(
        "token", [TOKEN[:-1] + "t", TOKEN + "/", "a/b", "", "%E2%80%9C", "%2e%2e", "a" * 10_000]
    )
    def test_a_wrong_link_is_answered_as_an_unknown_one(self, method: str, token: str) -> None:
        """Byte for byte, the request's own id apart."""
        opened = client(asked())
        unknown = opened.simulate_request(method, "/w/unknown", body=b"c=0", headers=FORM)

        wrong = opened.simulate_request(method, f"/w/{token}", body=b"c=0", headers=FORM)

        assert 404 == unknown.status_code
        assert without_id(unknown) == without_id(wrong)

    @pytest.mark.parametrize("path", [PAGE, "/w/a/b"])
    def test_no_other_method_does_anything(self, path: str) -> None:
        runs = asked()

        result = client(runs).simulate_request("DELETE", path)

        assert (405, "GET, HEAD, POST") == (result.status_code, result.headers["Allow"])
        assert [] == runs.calls


class TestRequestLog:
    @pytest.mark.parametrize("path", [PAGE, f"/w/{TOKEN}/x"])
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_the_line_has_the_route_and_never_the_token(
        self, caplog: pytest.LogCaptureFixture, path: str, method: str
    ) -> None:
        with caplog.at_level("DEBUG"):
            client(asked()).simulate_request(method, path, body=urlencode(FILLED), headers=FORM)

        assert "route=/w/:token" in caplog.text
        assert TOKEN not in caplog.text
        assert "pk_7" not in caplog.text
