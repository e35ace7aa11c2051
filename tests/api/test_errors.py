"""The table of errors: what it holds, and that every error is answered by it."""

import logging
from collections.abc import Iterator

import falcon
import falcon.testing
import pytest

from abeyance import errors
from abeyance.http.errors import TABLE, MethodNotAllowedError, find_row, ours
from tests.api.fake_runs import LINK, RUN, FakeRuns, api, open_client

CANARY = "CANARY-ada@example.org"


def refused_errors(base: type[errors.AbeyanceError] = errors.RefusedError) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from refused_errors(kind)


class TestTable:
    @pytest.mark.parametrize("kind", [*refused_errors(), errors.StoreUnavailableError], ids=lambda k: k.code)
    def test_every_refusal_has_its_own_row(self, kind: type[errors.AbeyanceError]) -> None:
        row = find_row(kind)

        assert row is not None
        assert kind is type(row.example)

    def test_no_code_stands_for_two_things(self) -> None:
        codes = [row.example.code for row in TABLE]

        assert sorted(set(codes)) == sorted(codes)

    @pytest.mark.parametrize("row", TABLE, ids=lambda row: row.example.code)
    def test_an_error_is_answered_as_its_row_says(self, row: object) -> None:
        (found,) = (each for each in TABLE if each is row)
        runs = FakeRuns(failures={"get": found.example})

        result = open_client(runs).simulate_get(RUN)

        error = result.json["error"]
        assert found.status == result.status_code
        assert found.example.code == error["code"]
        assert str(found.example) == error["message"]
        assert result.headers["X-Request-Id"] == error["requestId"]
        assert "no-store" == result.headers["Cache-Control"]
        assert "application/json" == result.headers["Content-Type"]
        for name, value in found.headers(found.example).items():
            assert value == result.headers[name]

    def test_an_error_without_a_row_is_answered_as_its_ancestor(self) -> None:
        class ParcelNotFoundError(errors.NotFoundError):
            code = "parcel-not-found"

        result = open_client(FakeRuns(failures={"get": ParcelNotFoundError()})).simulate_get(RUN)

        assert (404, "parcel-not-found") == (result.status_code, result.json["error"]["code"])

    def test_retry_after_is_never_0(self) -> None:
        runs = FakeRuns(failures={"get": errors.StoreUnavailableError(retry_after_s=0)})

        assert "1" == open_client(runs).simulate_get(RUN).headers["Retry-After"]


class TestUnexpectedError:
    @pytest.mark.parametrize("error", [ValueError(CANARY), errors.ConflictError(CANARY)], ids=["any", "ours"])
    def test_it_is_500_without_detail_and_the_log_has_its_place(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        error.__cause__ = KeyError(CANARY)

        result = open_client(FakeRuns(failures={"get": error})).simulate_get(RUN)

        assert (500, "internal-server-error") == (result.status_code, result.json["error"]["code"])
        assert CANARY not in result.text
        (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
        message = record.getMessage()
        assert result.json["error"]["requestId"] in message
        assert type(error).__name__ in message
        assert "KeyError" in message
        assert "fake_runs.py" in message
        assert CANARY not in caplog.text

    def test_the_cause_of_a_lost_store_is_named_by_type(self, caplog: pytest.LogCaptureFixture) -> None:
        error = errors.StoreUnavailableError()
        error.__cause__ = OSError(CANARY)

        result = open_client(FakeRuns(failures={"get": error})).simulate_get(RUN)

        assert (503, "tenant-state-unavailable") == (result.status_code, result.json["error"]["code"])
        assert "OSError" in caplog.text
        assert CANARY not in caplog.text + result.text


class TestFalconErrors:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (falcon.HTTPNotFound(), "not-found"),
            (falcon.HTTPContentTooLarge(), "request-too-large"),
            (falcon.HTTPUnsupportedMediaType(description=CANARY), "unsupported-media-type"),
            (falcon.HTTPBadRequest(title=CANARY), "bad-input"),
            (falcon.HTTPInvalidHeader(CANARY, CANARY), "bad-input"),
        ],
    )
    def test_they_are_answered_as_ours(self, error: falcon.HTTPError, code: str) -> None:
        found = ours(error)

        assert code == found.code
        assert CANARY not in str(found)

    def test_a_failure_of_falcons_own_is_500(self) -> None:
        runs = FakeRuns(failures={"get": falcon.HTTPInternalServerError(title=CANARY)})

        result = open_client(runs).simulate_get(RUN)

        assert (500, "internal-server-error") == (result.status_code, result.json["error"]["code"])
        assert CANARY not in result.text


class TestRoutes:
    @pytest.mark.parametrize(
        "path", ["/", "/v1", "/v2/runs", "/v1/runs/1/x", "/v1/wait-tokens/a", LINK + "/", "/health/"]
    )
    def test_anything_else_is_not_found(self, path: str) -> None:
        """Also without a key: what routes there are is in the reference for all to read."""
        for method in ("GET", "POST", "OPTIONS", "BREW"):
            result = falcon.testing.TestClient(api(FakeRuns())).simulate_request(method, path)

            assert (404, "not-found") == (result.status_code, result.json["error"]["code"])

    @pytest.mark.parametrize(
        ("path", "allow"),
        [
            ("/v1/runs", "GET, HEAD, POST"),
            (RUN, "GET, HEAD"),
            (f"{RUN}/resume", "POST"),
            (f"{RUN}/cancel", "POST"),
            (f"{RUN}/journal", "GET, HEAD"),
            ("/v1/audit/records", "GET, HEAD"),
            ("/v1/openapi.json", "GET, HEAD"),
            ("/health", "GET, HEAD"),
            ("/ready", "GET, HEAD"),
            ("/metrics", "GET, HEAD"),
        ],
    )
    @pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "TRACE", "BREW"])
    def test_a_wrong_method_is_told_the_right_ones(self, path: str, allow: str, method: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_request(method, path)

        assert (405, MethodNotAllowedError.code) == (result.status_code, result.json["error"]["code"])
        assert allow == result.headers["Allow"]
        assert [] == runs.calls
