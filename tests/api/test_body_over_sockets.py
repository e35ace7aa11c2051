"""Bodies as they come over real sockets, through the server that is used in production (docs/adr/0005)."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.raw_http import RawConnection, RawResponse, chunk, chunked, exchange, request

ROOT = Path(__file__).parents[2]
JSON = ("Content-Type", "application/json")
P7 = b'{"pickupAt":"2026-10-25T09:00:00Z","pickupId":"pk_7"}'
LIMIT = 1_048_576


class BodyServer:
    """gunicorn with its own ASGI worker and `tests/api/body_app.py`, in a process of its own."""

    def __init__(self, notes: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.notes_file = notes
        options = ["--worker-class", "asgi", "--no-control-socket", "--asgi-disconnect-grace-period", "1"]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gunicorn",
                *options,
                "--bind",
                f"127.0.0.1:{self.port}",
                "tests.api.body_app:app",
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."]), "BODY_APP_NOTES": str(notes)},
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        self.wait_for(lambda: self.get("/notes"))
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def get(self, path: str) -> Any:
        """The JSON at `path`, `None` while nobody answers."""
        try:
            response = exchange(self.port, request(path, method="GET"))
        except OSError:
            return None
        return json.loads(response.body) if response else None

    def taken(self) -> list[str]:
        """The canonical bodies that were taken so far."""
        taken: list[str] = self.get("/taken")
        return taken

    def notes(self) -> list[str]:
        """What happened in the server's process so far."""
        return self.notes_file.read_text().splitlines()

    def take(self, data: bytes, *, half_close: bool = False) -> RawResponse | None:
        """Send `data` on a connection of its own."""
        return exchange(self.port, data, half_close=half_close)

    def wait_for(self, condition: Any, *, within_s: float = 20.0) -> None:
        """Wait until `condition` holds."""
        end = time.monotonic() + within_s
        while not condition():
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop the server and return its exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BodyServer]:
    with BodyServer(tmp_path_factory.mktemp("server") / "notes") as server:
        yield server


def answer(response: RawResponse | None) -> tuple[int, bytes] | None:
    return (response.status, response.body) if response else None


def refusal(response: RawResponse | None) -> tuple[int, str] | None:
    return (response.status, json.loads(response.body)["error"]["code"]) if response else None


class TestChunkedBodies:
    @pytest.mark.case("D01")
    @pytest.mark.parametrize(
        ("pieces", "taken"),
        [
            ([b'11\r\n{"pickupId":"p7"}\r\n', b"0\r\n\r\n"], b'{"pickupId":"p7"}'),
            ([chunk(b'{"a":"\xc3'), chunk(b'\xa9"}'), chunk(b"")], '{"a":"é"}'.encode()),
            ([chunk(P7), b"0\r\nX-Checksum: 7\r\nX-Other: 8\r\n\r\n"], P7),
            ([b"0035;name=value\r\n" + P7 + b"\r\n", chunk(b"")], P7),
            ([chunk(bytes([byte])) for byte in P7] + [chunk(b"")], P7),
            ([chunk(b"")], b"{}"),
        ],
        ids=["one", "inside a character", "trailers", "extension", "byte by byte", "empty"],
    )
    def test_a_chunked_body_counts(self, server: BodyServer, pieces: list[bytes], taken: bytes) -> None:
        assert (200, taken) == answer(server.take(chunked("/take", pieces, [JSON])))

    @pytest.mark.case("D01")
    def test_a_chunked_body_that_comes_slowly_counts(self, server: BodyServer) -> None:
        message = chunked("/take", [chunk(P7[:20]), chunk(P7[20:]), chunk(b"")], [JSON])
        with RawConnection(server.port) as connection:
            for start in range(0, len(message), 25):
                connection.send(message[start : start + 25])
                time.sleep(0.002)

            assert (200, P7) == answer(connection.read())

    @pytest.mark.case("D01")
    def test_the_limit_holds_for_chunks(self, server: BodyServer) -> None:
        most = b'"' + b"a" * (LIMIT - 2) + b'"'
        pieces = [chunk(most[start : start + 65_536]) for start in range(0, LIMIT, 65_536)]

        assert (200, most) == answer(server.take(chunked("/take", [*pieces, chunk(b"")], [JSON])))
        assert (413, "request-too-large") == refusal(
            server.take(chunked("/take", [*pieces, chunk(b"a"), chunk(b"")], [JSON]))
        )

    @pytest.mark.case("D01")
    def test_too_many_chunks_are_refused_before_their_end(self, server: BodyServer) -> None:
        endless = chunked("/take", [chunk(b"a" * 65_536)] * 17, [JSON])

        assert (413, "request-too-large") == refusal(server.take(endless))

    @pytest.mark.case("D01")
    def test_neither_length_nor_chunks_is_an_empty_body(self, server: BodyServer) -> None:
        assert (200, b"{}") == answer(server.take(request("/take", headers=[JSON])))

    @pytest.mark.case("E02")
    @pytest.mark.parametrize(
        "coding",
        ["\x0bchunked", "chunked\xa0", "chunked, chunked", "gzip, chunked", "identity", "chunked, x", "x"],
    )
    def test_any_other_transfer_coding_is_refused(self, server: BodyServer, coding: str) -> None:
        before = server.taken()
        response = server.take(
            request("/take", headers=[JSON, ("Transfer-Encoding", coding)]) + chunk(P7) + chunk(b"")
        )

        # RFC 9112, section 6.1, asks for 501 where the coding isn't known.
        assert response is not None
        assert response.status in (400, 501)
        assert before == server.taken()

    @pytest.mark.parametrize("length", ["3", "+1", "1_0", "0x1", "-1", "", "\xb2"])
    def test_a_length_that_contradicts_or_is_no_number_is_refused(
        self, server: BodyServer, length: str
    ) -> None:
        before = server.taken()
        chunks = [("Transfer-Encoding", "chunked")] if length == "3" else []
        response = server.take(request("/take", headers=[JSON, ("Content-Length", length), *chunks]) + b"123")

        assert response is not None
        assert 400 == response.status
        assert before == server.taken()


class TestBodiesThatEndTooEarly:
    @pytest.mark.case("D02")
    @pytest.mark.parametrize("end", ["half-close", "reset"])
    @pytest.mark.parametrize(
        "data",
        [
            request("/take", b"", [JSON], length=9),
            request("/take", b"1234", [JSON], length=9),
            request("/take", P7, [JSON], length=60),
            chunked("/take", [], [JSON]),
            chunked("/take", [chunk(P7)], [JSON]),
            chunked("/take", [chunk(P7)[:20]], [JSON]),
            chunked("/take", [chunk(P7), b"0\r\n"], [JSON]),
        ],
        ids=[
            "nothing",
            "prefix",
            "whole object",
            "no chunk",
            "no last chunk",
            "half a chunk",
            "half the last chunk",
        ],
    )
    def test_nothing_is_taken(self, server: BodyServer, data: bytes, end: str) -> None:
        before = server.taken()
        with RawConnection(server.port) as connection:
            connection.send(data)
            if end == "reset":
                time.sleep(0.05)
                connection.reset()
            else:
                connection.half_close()
                response = connection.read()
                assert response is None or response.status == 400

        time.sleep(0.05)
        assert before == server.taken()


class TestEmptyBodies:
    @pytest.mark.case("D13")
    @pytest.mark.parametrize(
        "headers", [[JSON], [], [("Content-Type", "text/plain")], [("Content-Type", "")]], ids=str
    )
    @pytest.mark.parametrize("length", [0, None])
    def test_zero_bytes_are_an_empty_object(
        self, server: BodyServer, headers: list[tuple[str, str]], length: int | None
    ) -> None:
        assert (200, b"{}") == answer(server.take(request("/take", headers=headers, length=length)))

    @pytest.mark.case("D13")
    @pytest.mark.parametrize("body", [b" \r\n", b"\xef\xbb\xbf", b"\x00"])
    def test_white_space_and_marks_are_not_empty(self, server: BodyServer, body: bytes) -> None:
        assert (400, "bad-input") == refusal(server.take(request("/take", body, [JSON])))

    @pytest.mark.case("D13")
    def test_null_is_null(self, server: BodyServer) -> None:
        assert (200, b"null") == answer(server.take(request("/take", b" null\n", [JSON])))


class TestContentTypes:
    @pytest.mark.case("D16")
    @pytest.mark.parametrize(
        "value",
        [
            "application/json",
            "Application/JSON",
            "application/json;charset=UTF-8",
            "application/json;",
            'application/json; charset="utf-8"',
            'application/json ; CharSet="ut\\f-8" ; ;profile="a;b=\\"c\\""',
            "application/json; profile=https",
            "application/vnd.api+json",
            "application/CLOUDEVENTS+JSON; charset=utf-8",
            'application/json; x="; charset=utf-16"',
        ],
    )
    def test_json_types_are_taken(self, server: BodyServer, value: str) -> None:
        assert (200, P7) == answer(server.take(request("/take", P7, [("Content-Type", value)])))

    @pytest.mark.case("D16")
    @pytest.mark.parametrize(
        "value",
        [
            "",
            "*/*",
            "text/json",
            "application/jsonp",
            "application/json, application/json",
            "text/plain",
            "application/*",
            "application/x-www-form-urlencoded",
            "application/json; charset=utf-16",
            "application/json; charset=nonsense",
            "application/json; charset=latin-1; charset=utf-8",
            "application/json; charset",
            "application/json; charset =utf-8",
            'application/json; charset="utf-8',
            "application/+json",
            "application/json x",
            "json",
        ],
    )
    def test_other_types_are_refused(self, server: BodyServer, value: str) -> None:
        before = server.taken()

        assert (415, "unsupported-media-type") == refusal(
            server.take(request("/take", P7, [("Content-Type", value)]))
        )
        assert before == server.taken()

    @pytest.mark.case("D16")
    @pytest.mark.parametrize(
        "headers",
        [[], [JSON, ("Content-Encoding", "gzip")], [JSON, ("Content-Encoding", "identity")]],
        ids=["no type", "gzip", "identity"],
    )
    @pytest.mark.parametrize("in_chunks", [False, True])
    def test_no_type_and_any_encoding_are_refused(
        self, server: BodyServer, headers: list[tuple[str, str]], in_chunks: bool
    ) -> None:
        whole = chunked("/take", [chunk(P7), chunk(b"")], headers)
        data = whole if in_chunks else request("/take", P7, headers)

        assert (415, "unsupported-media-type") == refusal(server.take(data))

    @pytest.mark.case("D16")
    def test_two_types_are_refused(self, server: BodyServer) -> None:
        before = server.taken()
        response = server.take(request("/take", P7, [JSON, ("Content-Type", "text/plain")]))

        # gunicorn answers itself, other servers leave it to the application.
        assert response is not None
        assert response.status in (400, 415)
        assert before == server.taken()


class TestSize:
    def test_the_limit_passes_and_one_more_is_refused(self, server: BodyServer) -> None:
        most = b'"' + b"a" * (LIMIT - 2) + b'"'

        assert (200, most) == answer(server.take(request("/take", most, [JSON])))
        assert (413, "request-too-large") == refusal(server.take(request("/take", b" " + most, [JSON])))

    def test_a_refusal_comes_without_reading_the_rest(self, server: BodyServer) -> None:
        assert (413, "request-too-large") == refusal(
            server.take(request("/take", b"", [JSON], length=LIMIT + 1))
        )

    def test_a_refusal_reaches_a_sender_that_goes_on_sending(self, server: BodyServer) -> None:
        for _ in range(10):
            assert (413, "request-too-large") == refusal(
                server.take(request("/take", b"a" * 3_000_000, [JSON]))
            )

    def test_the_connection_is_not_used_again_after_an_unread_body(self, server: BodyServer) -> None:
        with RawConnection(server.port) as connection:
            connection.send(request("/take", b"", [JSON], length=LIMIT + 1))

            assert (413, "request-too-large") == refusal(connection.read())
            assert connection.is_closed()


class TestExpectations:
    @pytest.mark.case("E10")
    def test_a_body_that_fits_is_invited_and_taken(self, server: BodyServer) -> None:
        body = b'"' + b"a" * (900 * 1024 - 2) + b'"'
        with RawConnection(server.port) as connection:
            connection.send(request("/take", b"", [JSON, ("Expect", "100-continue")], length=len(body)))

            assert 100 == connection.read_interim()

            connection.send(body)

            assert (200, body) == answer(connection.read())

    @pytest.mark.case("E10")
    @pytest.mark.parametrize(
        ("headers", "length", "status"),
        [([JSON], 2 * LIMIT, 413), ([], 10, 415), ([JSON, ("Content-Encoding", "br")], 10, 415)],
        ids=["too large", "no type", "encoded"],
    )
    def test_a_body_that_its_headers_refuse_is_not_invited(
        self, server: BodyServer, headers: list[tuple[str, str]], length: int, status: int
    ) -> None:
        with RawConnection(server.port) as connection:
            connection.send(request("/take", b"", [*headers, ("Expect", "100-continue")], length=length))
            response = connection.read()

        assert response is not None
        assert (status, ()) == (response.status, response.interim)

    @pytest.mark.case("E10")
    def test_a_body_for_no_route_is_not_invited(self, server: BodyServer) -> None:
        with RawConnection(server.port) as connection:
            connection.send(request("/none", b"", [JSON, ("Expect", "100-continue")], length=10))
            response = connection.read()

        assert response is not None
        assert (404, ()) == (response.status, response.interim)


class TestHeadersAndConnections:
    @pytest.mark.case("E03")
    @pytest.mark.parametrize(
        ("headers", "taken"),
        [
            ([JSON, ("Content_Length", "1")], (200, b"{}")),
            ([JSON, ("Content_Encoding", "gzip")], (200, b"{}")),
        ],
        ids=["length", "encoding"],
    )
    def test_an_underscore_is_another_name(
        self, server: BodyServer, headers: list[tuple[str, str]], taken: tuple[int, bytes]
    ) -> None:
        assert taken == answer(server.take(request("/take", headers=headers)))

    @pytest.mark.case("E03")
    def test_an_underscore_gives_no_type(self, server: BodyServer) -> None:
        data = request("/take", P7, [("Content_Type", "application/json")])

        assert (415, "unsupported-media-type") == refusal(server.take(data))

    def test_a_connection_is_used_again_after_refusals_whose_bodies_came(self, server: BodyServer) -> None:
        with RawConnection(server.port) as connection:
            statuses = []
            for data in (
                request("/take", b"{", [JSON]),
                request("/take", P7, [("Content-Type", "text/plain")]),
                request("/none", P7, [JSON]),
                request("/taken", method="GET"),
                request("/take", P7, [JSON]),
            ):
                connection.send(data)
                response = connection.read()
                statuses.append(response.status if response else None)

        assert [400, 415, 404, 200, 200] == statuses


class TestLifeOfTheServer:
    @pytest.mark.slow
    def test_what_is_shielded_outlives_its_client_and_nothing_else_does(self, server: BodyServer) -> None:
        for path in ("/slow?s=2", "/bare?s=2"):
            began = f"{path[1:5]} began"
            with RawConnection(server.port) as connection:
                connection.send(request(path, b"{}", [JSON]))
                server.wait_for(lambda began=began: began in server.notes())
                connection.reset()
        server.wait_for(lambda: "slow finished" in server.notes())

        assert "slow cancelled" in server.notes()
        assert "bare cancelled" in server.notes()
        assert "bare finished" not in server.notes()

    @pytest.mark.slow
    def test_the_application_starts_and_stops_around_the_requests(self, tmp_path: Path) -> None:
        with BodyServer(tmp_path / "notes") as server, RawConnection(server.port) as connection:
            connection.send(request("/slow?s=1", b"{}", [JSON]))
            server.wait_for(lambda: "slow began" in server.notes())
            code = server.stop()
            response = connection.read()

        assert 0 == code
        assert response is not None
        assert 200 == response.status
        assert ["started", "slow began", "slow finished", "stopped"] == server.notes()
