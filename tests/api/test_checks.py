"""`?check=true`: whether an answer would be taken, over a service that does as it is told."""

import json

import pytest

from abeyance.errors import (
    AnswerInvalidError,
    Issue,
    RateLimitedError,
    RefusedError,
    ResumeNotSupportedError,
    RunNotFoundError,
    StoreUnavailableError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
)
from abeyance.http import samples
from tests.api.fake_runs import LINK, RUN, FakeRuns, open_client
from tests.api.test_links import JSON, FullGate, code, samples_body

RESUME = json.dumps(samples.RESUME_BODY).encode()


class TestCheckAtALink:
    def test_an_answer_that_would_be_taken_is_acceptable_and_not_taken(self) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(LINK + "?check=true", body=samples_body(), headers=JSON)

        assert 200 == result.status_code
        assert b'{"status":"acceptable"}' == result.content
        assert samples.ANSWER == runs.only("check")
        assert "answer" not in dict(runs.calls)

    @pytest.mark.parametrize(
        "error",
        [
            AnswerInvalidError([Issue("/pickupAt", "required")]),
            WaitTokenClosedError("completed"),
            StoreUnavailableError(),
        ],
        ids=lambda error: error.code,
    )
    def test_an_answer_that_would_be_refused_is_refused_alike(self, error: RefusedError) -> None:
        taking = open_client(FakeRuns(failures={"answer": error})).simulate_post(LINK, headers=JSON)
        checking = open_client(FakeRuns(failures={"check": error})).simulate_post(
            LINK + "?check=true", headers=JSON
        )

        expected, actual = taking.json["error"], checking.json["error"]
        assert expected | {"requestId": ""} == actual | {"requestId": ""}
        assert taking.status_code == checking.status_code

    def test_a_check_counts_like_an_answer(self) -> None:
        result = open_client(FakeRuns(), gate=FullGate()).simulate_post(LINK + "?check=true", headers=JSON)

        assert RateLimitedError.code == code(result)

    @pytest.mark.parametrize("query", ["check=false", "utm=1", "checked=true", ""])
    def test_without_a_check_the_answer_is_taken(self, query: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(LINK + "?" + query, body=samples_body(), headers=JSON)

        assert b'{"status":"accepted"}' == result.content
        assert samples.ANSWER == runs.only("answer")

    @pytest.mark.parametrize("query", ["check=1", "check=TRUE", "check", "check=true&check=true", "check="])
    def test_a_check_that_cannot_be_read_takes_nothing(self, query: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(LINK + "?" + query, body=samples_body(), headers=JSON)

        assert (400, "bad-input") == (result.status_code, code(result))
        assert not {"answer", "check"} & dict(runs.calls).keys()

    def test_a_wrong_link_is_told_before_a_wrong_check(self) -> None:
        path = "/v1/wait-tokens/unknown/complete?check=maybe"

        assert "wait-token-not-found" == code(open_client(FakeRuns()).simulate_post(path, headers=JSON))


class TestCheckOfAResume:
    def test_an_answer_that_would_be_taken_is_acceptable_and_not_taken(self) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(RUN + "/resume?check=true", body=RESUME, headers=JSON)

        assert b'{"status":"acceptable"}' == result.content
        assert (samples.RUN_ID, samples.TOKEN_ID, samples.ANSWER) == runs.only("check_resume")
        assert "resume" not in dict(runs.calls)

    @pytest.mark.parametrize(
        "error",
        [
            RunNotFoundError(),
            WaitTokenNotFoundError(),
            WaitTokenClosedError("answered"),
            AnswerInvalidError([Issue("", "type")]),
            ResumeNotSupportedError(),
        ],
        ids=lambda error: error.code,
    )
    def test_an_answer_that_would_be_refused_is_refused_alike(self, error: RefusedError) -> None:
        taking = open_client(FakeRuns(failures={"resume": error})).simulate_post(
            RUN + "/resume", body=RESUME, headers=JSON
        )
        checking = open_client(FakeRuns(failures={"check_resume": error})).simulate_post(
            RUN + "/resume?check=true", body=RESUME, headers=JSON
        )

        expected, actual = taking.json["error"], checking.json["error"]
        assert expected | {"requestId": ""} == actual | {"requestId": ""}
        assert taking.status_code == checking.status_code

    @pytest.mark.parametrize("query", ["check=1", "chekc=true", "check=true&check=true"])
    def test_a_check_that_cannot_be_read_takes_nothing(self, query: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_post(RUN + "/resume?" + query, body=RESUME, headers=JSON)

        assert (400, "bad-input") == (result.status_code, code(result))
        assert [] == runs.calls
