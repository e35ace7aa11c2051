"""`Idempotency-Key`: which headers are a key, and which routes take one."""

import json
from typing import Any

import falcon.testing
import pytest

from abeyance.errors import BadInputError
from abeyance.http import openapi
from abeyance.http.idempotency import Rendered, find_key
from abeyance.http.operations import OPERATIONS
from tests.api.fake_runs import RUN, TOKEN, FakeRuns, open_client

# An export changes nothing but the record that it was handed out, and is too large to be kept.
MUTATING = [
    each
    for each in OPERATIONS
    if each.method != "GET" and not each.open_to_all and each.name != "exportRecords"
]
IDS = [each.name for each in MUTATING]


def sent(*values: bytes, name: bytes = b"idempotency-key") -> list[tuple[bytes, bytes]]:
    return [(b"host", b"h"), *((name, value) for value in values)]


class TestKey:
    @pytest.mark.case("F06")
    @pytest.mark.parametrize(
        ("value", "key"),
        [
            (b"k", "k"),
            (b"8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            (b'"k"', "k"),
            (b'"a \\"b\\" \\\\c"', 'a "b" \\c'),
            (b"  k\t", "k"),
            (b"a b", "a b"),
            (b'a"b', 'a"b'),
            ("zażółć ☂".encode(), "zażółć ☂"),
            ("é".encode() * 255, "é" * 255),
            (b"x" * 255, "x" * 255),
            (b'"' + b"x" * 255 + b'"', "x" * 255),
        ],
    )
    def test_it_is_what_was_sent_without_quotes_and_white_space_around(self, value: bytes, key: str) -> None:
        assert key == find_key(sent(value))

    @pytest.mark.case("F06")
    @pytest.mark.parametrize(
        "value",
        [b"", b" ", b'""', b"x" * 256, b"x" * 8_000, "é".encode() * 256, b"a\x00b", b"a\x1fb", b"a\x7fb",
         "a\u0085b".encode(), b"\xe9", b"\xff\xfe", b'"', b'"k', b'"k"; a=1', b'"a\\b"', b'"\xc3\xa9"'],
    )  # fmt: skip
    def test_anything_else_is_bad_input(self, value: bytes) -> None:
        with pytest.raises(BadInputError):
            find_key(sent(value))

    def test_two_headers_must_be_the_same(self) -> None:
        assert "k" == find_key(sent(b"k", b"k"))
        with pytest.raises(BadInputError):
            find_key(sent(b"k", b"K"))

    @pytest.mark.case("E03")
    def test_an_underscore_makes_another_header(self) -> None:
        assert find_key(sent(b"k", name=b"idempotency_key")) is None

    def test_no_header_is_no_key(self) -> None:
        assert find_key(sent()) is None


class TestRoutes:
    def test_every_route_that_changes_something_takes_a_key(self) -> None:
        """Links don't: the same answer again is accepted without."""
        assert MUTATING
        assert [] == [each.name for each in MUTATING if not each.idempotent]
        assert [] == [each.name for each in OPERATIONS if each.idempotent and each not in MUTATING]

    @pytest.mark.parametrize("operation", MUTATING, ids=IDS)
    def test_a_wrong_key_is_refused_and_nothing_is_done(self, operation: Any) -> None:
        runs = FakeRuns()
        path = operation.path.replace("{id}", RUN.rpartition("/")[2])
        body = json.dumps(operation.body_example).encode()

        result = open_client(runs).simulate_request(
            operation.method,
            path,
            body=body,
            headers={"Content-Type": "application/json", "Idempotency-Key": ""},
        )

        assert (400, "bad-input") == (result.status_code, result.json["error"]["code"])
        assert "Idempotency-Key" in result.json["error"]["message"]
        assert [] == runs.calls

    @pytest.mark.parametrize("operation", MUTATING, ids=IDS)
    def test_the_description_says_so(self, operation: Any) -> None:
        described = openapi.document()["paths"][operation.path][operation.method.lower()]

        (key,) = (each for each in described["parameters"] if each["in"] == "header")
        assert ("Idempotency-Key", False) == (key["name"], key["required"])
        for answer in operation.answers:
            assert "Idempotency-Replayed" in described["responses"][str(answer.status)]["headers"]
        refusals = described["responses"]["409"]["content"]["application/json"]["examples"]
        assert {"idempotency-key-body-mismatch", "idempotency-key-in-flight"} <= refusals.keys()

    def test_a_link_takes_none(self) -> None:
        """Whatever the header says: it is another system's, and may mean something there."""
        runs = FakeRuns()

        result = open_client(runs).simulate_post(
            f"/v1/wait-tokens/{TOKEN}/complete", body=b"", headers={"Idempotency-Key": ""}
        )

        assert (200, {"status": "accepted"}) == (result.status_code, result.json)


class TestRendered:
    @pytest.mark.parametrize(
        "answer",
        [
            Rendered(status=201, body=b'{"id":"1"}', location="/v1/runs/1"),
            Rendered(status=200, body="ä".encode()),
            Rendered(status=204, body=b""),
        ],
    )
    def test_what_is_kept_is_what_was_answered(self, answer: Rendered) -> None:
        assert answer == Rendered.unpack(answer.pack())


class TestWithoutKeptKeys:
    def test_a_request_is_taken_as_it_is(self) -> None:
        runs = FakeRuns()
        client: falcon.testing.TestClient = open_client(runs)

        results = [client.simulate_post(f"{RUN}/cancel", headers={"Idempotency-Key": "k"}) for _ in range(2)]

        assert [200, 200] == [each.status_code for each in results]
        assert 2 == len(runs.calls)
