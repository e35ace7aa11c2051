"""`/v1/runs` and below, over a service that does as it is told."""

from uuid import UUID

import falcon.testing
import pytest

from abeyance.errors import (
    AnswerInvalidError,
    BadInputError,
    InputInvalidError,
    Issue,
    ResumeNotSupportedError,
    RunAlreadyTerminalError,
    RunNotFoundError,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
)
from abeyance.http import samples
from abeyance.projections.views import JournalEntry, Page
from tests.api.fake_runs import AUTHORIZED, RUN, FakeRuns, api, open_client

JSON = {"Content-Type": "application/json"}
NOT_RUNS = ["1", "%00", "nonsense", str(samples.RUN_ID).replace("-", ""), f"{{{samples.RUN_ID}}}", "٠" * 36]


def post(runs: FakeRuns, path: str, body: bytes) -> falcon.testing.Result:
    return open_client(runs).simulate_post(path, body=body, headers=JSON)


def refusal(result: falcon.testing.Result) -> tuple[int, str]:
    return result.status_code, result.json["error"]["code"]


class TestStart:
    def test_a_run_that_ended_or_waits_is_201(self) -> None:
        runs = FakeRuns(run=samples.SUSPENDED)

        result = post(runs, "/v1/runs", b'{"flow":"shop.ship-order"}')

        assert 201 == result.status_code
        assert RUN == result.headers["Location"]
        assert "suspended" == result.json["status"]
        assert samples.TOKEN_ID == result.json["waitingFor"]["tokens"][0]["tokenId"]

    @pytest.mark.parametrize("body", [b'{"flow":"f"}', b'{"flow":"f","wait":false}'])
    def test_a_run_that_goes_on_is_202(self, body: bytes) -> None:
        result = post(FakeRuns(run=samples.RUNNING), "/v1/runs", body)

        assert 202 == result.status_code

    def test_what_was_left_out_has_its_default(self) -> None:
        runs = FakeRuns()

        post(runs, "/v1/runs", b'{"script":"shop.refund"}')

        command = runs.only("start")
        assert ("script", "shop.refund", None) == (command.kind, command.id, command.version)
        assert (b"{}", True, 30.0) == (command.input, command.wait, command.wait_s)
        assert (None, None, "default", {}) == (
            command.ttl_ms,
            command.participant,
            command.project,
            command.labels,
        )

    def test_everything_asked_for_is_handed_on(self) -> None:
        runs = FakeRuns()
        body = (
            b'{"agent":"shop.clerk@1.2.0","input":{"b":1.10,"a":[1e2,-0]},"wait":false,"ttlMs":60000,'
            b'"participant":"customer 7","project":"shop","labels":{"team":"shipping","empty":""}}'
        )

        falcon.testing.TestClient(api(runs)).simulate_post("/v1/runs", body=body, headers=JSON | AUTHORIZED)

        command = runs.only("start")
        assert ("agent", "shop.clerk", "1.2.0") == (command.kind, command.id, command.version)
        assert b'{"a":[1e2,-0],"b":1.10}' == command.input
        assert (False, 60_000, "customer 7") == (command.wait, command.ttl_ms, command.participant)
        assert "shop" == command.project
        assert {"team": "shipping", "empty": ""} == command.labels
        assert "deployment" == command.actor

    @pytest.mark.parametrize(
        ("body", "issue"),
        [
            (b"{}", ("", "oneOf")),
            (b'{"flow":"a","script":"b"}', ("", "oneOf")),
            (b'{"flow":null}', ("", "oneOf")),
            (b'{"flow":""}', ("/flow", "minLength")),
            (b'{"flow":"a@"}', ("", "pattern")),
            (b'{"flow":"@1"}', ("", "pattern")),
            (b'{"flow":7}', ("/flow", "type")),
            (b'{"flow":"a\\u0000"}', ("/flow", "pattern")),
            (b'{"flow":"a","wait":1}', ("/wait", "type")),
            (b'{"flow":"a","wait":"true"}', ("/wait", "type")),
            (b'{"flow":"a","ttlMs":1.0}', ("/ttlMs", "type")),
            (b'{"flow":"a","ttlMs":true}', ("/ttlMs", "type")),
            (b'{"flow":"a","ttlMs":0}', ("/ttlMs", "minimum")),
            (b'{"flow":"a","ttlMs":1' + b"0" * 900 + b"}", ("/ttlMs", "maximum")),
            (b'{"flow":"a","labels":{"a":1}}', ("/labels/a", "type")),
            (b'{"flow":"a","labels":{"a/~b":"\\u0000"}}', ("/labels/a~1~0b", "pattern")),
            (b'{"flow":"a","labels":{"":"x"}}', ("/labels/", "minLength")),
            (b'{"flow":"a","labels":[]}', ("/labels", "type")),
            (b'{"flow":"a","participant":{}}', ("/participant", "type")),
            (b"[]", ("", "type")),
            (b'"flow"', ("", "type")),
            (b"null", ("", "type")),
        ],
    )
    def test_a_body_of_another_shape_is_refused_with_its_place(
        self, body: bytes, issue: tuple[str, str]
    ) -> None:
        runs = FakeRuns()

        result = post(runs, "/v1/runs", body)

        assert (400, "bad-input") == refusal(result)
        (found,) = result.json["error"]["details"]["issues"]
        assert issue == (found["path"], found["rule"])
        assert [] == runs.calls

    def test_an_unknown_field_is_refused_by_name(self) -> None:
        runs = FakeRuns()

        result = post(runs, "/v1/runs", b'{"flow":"a","inptu":{"orderId":"CANARY"}}')

        assert (400, "unknown-field") == refusal(result)
        assert [{"path": "/inptu", "rule": "additionalProperties"}] == result.json["error"]["details"][
            "issues"
        ]
        assert b"CANARY" not in result.content
        assert [] == runs.calls

    def test_a_flood_of_wrong_fields_is_not_told_back(self) -> None:
        body = b'{"flow":"a",' + b",".join(b'"%d%s":1' % (n, b"x" * 1_000) for n in range(500)) + b"}"

        result = post(FakeRuns(), "/v1/runs", body)

        issues = result.json["error"]["details"]["issues"]
        assert 20 == len(issues)
        assert 200 == max(len(issue["path"]) for issue in issues)

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (InputInvalidError([Issue("/orderId", "pattern")]), (400, "input-validation-failed")),
            (BadInputError("too many labels"), (400, "bad-input")),
        ],
    )
    def test_what_the_service_refuses_is_told(self, error: Exception, expected: tuple[int, str]) -> None:
        result = post(FakeRuns(failures={"start": error}), "/v1/runs", b'{"flow":"a"}')

        assert expected == refusal(result)


class TestResume:
    def body(self, more: bytes = b"") -> bytes:
        return b'{"waitpointId":"' + samples.TOKEN_ID.encode() + b'"' + more + b"}"

    def test_the_answer_is_the_run_after_it(self) -> None:
        runs = FakeRuns()

        result = post(runs, f"{RUN}/resume", self.body(b',"value":{"pickupId":"pk_7"}'))

        assert 200 == result.status_code
        assert "completed" == result.json["status"]
        assert (samples.RUN_ID, samples.TOKEN_ID, b'{"pickupId":"pk_7"}', 30.0) == runs.only("resume")

    @pytest.mark.case("A20")
    @pytest.mark.parametrize("value", [b"null", b"false", b"0", b'""', b"[]", b"{}", b"1.10", b"-0"])
    def test_a_falsy_value_is_an_answer_and_keeps_its_text(self, value: bytes) -> None:
        runs = FakeRuns()

        post(runs, f"{RUN}/resume", self.body(b',"value":' + value))

        assert value == runs.only("resume")[2]

    @pytest.mark.case("A20")
    def test_a_value_that_is_left_out_is_an_empty_object(self) -> None:
        runs = FakeRuns()

        post(runs, f"{RUN}/resume", self.body())

        assert b"{}" == runs.only("resume")[2]

    @pytest.mark.case("A19")
    @pytest.mark.parametrize(
        "body",
        [
            b'{"waitpointId":"w","values":{"a":1}}',
            b'{"waitpointId":"w","output":{"a":1}}',
            b'{"waitpointid":"w","value":1}',
            b'{"waitpoint_id":"w","value":1}',
            b'{"value":1}',
            b"{}",
            b"",
            b"[]",
            b'{"waitpointId":7}',
            b'{"waitpointId":"a\\u0000b"}',
        ],
    )
    def test_a_misspelled_field_takes_nothing(self, body: bytes) -> None:
        runs = FakeRuns()

        result = post(runs, f"{RUN}/resume", body)

        assert (400, "bad-input") == refusal(result)
        assert [] == runs.calls

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (AnswerInvalidError([Issue("", "type")]), (400, "wait-token-output-invalid")),
            (RunNotFoundError(), (404, "run-not-found")),
            (WaitTokenNotFoundError(), (404, "wait-token-not-found")),
            (WaitTokenClosedError("timed-out"), (409, "wait-token-closed")),
            (ResumeNotSupportedError(), (422, "run-resume-not-supported")),
        ],
    )
    def test_what_the_service_refuses_is_told(self, error: Exception, expected: tuple[int, str]) -> None:
        runs = FakeRuns(failures={"resume": error})

        assert expected == refusal(post(runs, f"{RUN}/resume", self.body()))


class TestCancel:
    @pytest.mark.parametrize("body", [b"", b"{}"])
    def test_the_answer_is_the_run_after_it(self, body: bytes) -> None:
        runs = FakeRuns(run=samples.CANCELLED)

        result = post(runs, f"{RUN}/cancel", body)

        assert (200, "cancelled") == (result.status_code, result.json["status"])
        assert (samples.RUN_ID, None) == runs.only("cancel")

    def test_a_field_is_refused(self) -> None:
        assert (400, "unknown-field") == refusal(post(FakeRuns(), f"{RUN}/cancel", b'{"reason":"x"}'))

    def test_a_run_that_has_ended_says_how(self) -> None:
        runs = FakeRuns(failures={"cancel": RunAlreadyTerminalError("failed")})

        result = post(runs, f"{RUN}/cancel", b"")

        assert (409, "run-already-terminal") == refusal(result)
        assert {"status": "failed"} == result.json["error"]["details"]


class TestGet:
    def test_numbers_of_an_output_keep_their_text(self) -> None:
        result = open_client(FakeRuns()).simulate_get(RUN)

        assert b'"output":' + samples.ANSWER in result.content
        assert RUN == f"/v1/runs/{result.json['id']}"

    @pytest.mark.parametrize("name", NOT_RUNS)
    @pytest.mark.parametrize(
        ("method", "below"), [("GET", ""), ("POST", "/resume"), ("POST", "/cancel"), ("GET", "/journal")]
    )
    def test_what_is_no_id_is_no_runs(self, name: str, method: str, below: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_request(method, f"/v1/runs/{name}{below}")

        assert (404, "run-not-found") == refusal(result)
        assert [] == runs.calls

    def test_the_head_is_the_same_without_the_body(self) -> None:
        client = open_client(FakeRuns())

        head, full = client.simulate_head(RUN), client.simulate_get(RUN)

        assert (200, b"") == (head.status_code, head.content)
        assert full.headers["Content-Length"] == head.headers["Content-Length"]


class TestList:
    def test_all_filters_are_handed_on(self) -> None:
        runs = FakeRuns(runs=Page(data=(samples.COMPLETED, samples.SUSPENDED), next_cursor='a"b'))

        result = open_client(runs).simulate_get(
            "/v1/runs",
            query_string="status=failed&definition=shop.a&label=team=a%3Db&limit=7&cursor=MTIwNw",
        )

        query = runs.only("list")
        assert ("failed", "shop.a", ("team", "a=b")) == (query.status, query.definition, query.label)
        assert (7, "MTIwNw") == (query.limit, query.cursor)
        assert ["completed", "suspended"] == [run["status"] for run in result.json["data"]]
        assert (True, 'a"b') == (result.json["hasMore"], result.json["nextCursor"])

    def test_the_last_page_has_no_cursor(self) -> None:
        result = open_client(FakeRuns(runs=Page(data=(), next_cursor=None))).simulate_get("/v1/runs")

        assert {"data": [], "hasMore": False} == result.json

    @pytest.mark.parametrize(
        ("query", "code"),
        [
            ("status=paused", "bad-input"),
            ("status=failed&status=failed", "bad-input"),
            ("limit=0", "bad-input"),
            ("limit=101", "bad-input"),
            ("limit=1.0", "bad-input"),
            ("limit=+1", "bad-input"),
            ("limit=%D9%A1", "bad-input"),
            ("limit=", "bad-input"),
            ("label=team", "bad-input"),
            ("definition=%00", "bad-input"),
            ("cursor=%FF", "bad-input"),
            ("cursor=\u00ff", "bad-input"),
            ("state=failed", "unknown-field"),
        ],
    )
    def test_a_query_of_another_shape_is_refused(self, query: str, code: str) -> None:
        runs = FakeRuns()

        result = open_client(runs).simulate_get("/v1/runs", query_string=query)

        assert (400, code) == refusal(result)
        assert [] == runs.calls


class TestJournal:
    def test_a_page_of_events(self) -> None:
        entry = JournalEntry(
            sequence=3,
            kind="call-paused",
            timestamp=samples.COMPLETED.created_at,
            node=None,
            payload={"line": "shop:1"},
            digest="0" * 64,
            kid="0" * 16,
        )
        runs = FakeRuns(entries=Page(data=(entry,), next_cursor="3"))

        result = open_client(runs).simulate_get(f"{RUN}/journal")

        assert (samples.RUN_ID, 0, 100, False) == runs.only("journal")
        assert [
            {
                "sequence": 3,
                "kind": "call-paused",
                "timestamp": "2026-10-24T17:30:12.481Z",
                "payload": {"line": "shop:1"},
            }
        ] == result.json["data"]

    def test_the_next_page_with_content(self) -> None:
        runs = FakeRuns()

        open_client(runs).simulate_get(f"{RUN}/journal", query_string="after=3&limit=1000&content=true")

        assert (samples.RUN_ID, 3, 1000, True) == runs.only("journal")

    @pytest.mark.parametrize("query", ["after=-1", "limit=1001", "content=1", "content"])
    def test_a_query_of_another_shape_is_refused(self, query: str) -> None:
        result = open_client(FakeRuns()).simulate_get(f"{RUN}/journal", query_string=query)

        assert (400, "bad-input") == refusal(result)


class TestAuditRecords:
    def test_all_filters_are_handed_on(self) -> None:
        runs = FakeRuns()
        query = f"after=0&limit=5&runId={samples.RUN_ID}&kind=completed"

        result = open_client(runs).simulate_get("/v1/audit/records", query_string=query)

        assert 200 == result.status_code
        assert (0, 5, samples.RUN_ID, "completed") == runs.only("audit_log")

    def test_without_filters_it_begins_at_the_first_record(self) -> None:
        runs = FakeRuns()

        open_client(runs).simulate_get("/v1/audit/records")

        assert (-1, 100, None, None) == runs.only("audit_log")

    def test_an_id_is_read_in_any_case(self) -> None:
        runs = FakeRuns()

        open_client(runs).simulate_get(
            "/v1/audit/records", query_string=f"runId={str(samples.RUN_ID).upper()}"
        )

        assert UUID(str(samples.RUN_ID)) == runs.only("audit_log")[2]
