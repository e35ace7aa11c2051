"""The client's own second try: when a reply is lost, and never else."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from abeyance.client import Client, ConnectionFailed, IdempotencyKeyInFlight, Unavailable
from abeyance.client import transport as transport_module
from tests.unit.cli.fake_api import RUN_ID, TOKEN_ID, FakeApi, a_run, serving

LOST = b""


def reply(status: int, body: object, **headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(data)}"]
    lines += ["Connection: close", *(f"{name.replace('_', '-')}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + data


TAKEN = reply(200, a_run())
IN_FLIGHT = reply(
    409, {"error": {"code": "idempotency-key-in-flight", "message": "m", "requestId": "r"}}, Retry_After="1"
)
BUSY = reply(503, {"error": {"code": "tenant-state-unavailable", "message": "m", "requestId": "r"}})


@contextmanager
def answering(*replies: bytes) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these replies, one a connection, and what it was asked; then it is gone."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for each in replies:
                connection, _ = listener.accept()
                with connection:
                    asked.append(read(connection))
                    connection.sendall(each)
            listener.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        thread.join(10)


def read(connection: socket.socket) -> str:
    """One request, whole."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.decode().partition("\r\n\r\n")
    lengths = [int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")]
    while len(body) < sum(lengths):
        body += connection.recv(65_536).decode()
    return f"{head}\r\n\r\n{body}"


def waiting_connections(listener: socket.socket) -> int:
    """How many have connected and were not taken."""
    listener.setblocking(False)
    count = 0
    try:
        while True:
            listener.accept()[0].close()
            count += 1
    except BlockingIOError:
        return count


def keys(asked: list[str]) -> list[str]:
    return [
        line.partition(":")[2].strip()
        for request in asked
        for line in request.split("\r\n")
        if line.lower().startswith("idempotency-key:")
    ]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "PAUSES_S", (0.0, 0.0, 0.0))


CALLS: dict[str, Callable[[Client], Any]] = {
    "start": lambda client: client.runs.start(flow="f"),
    "resume": lambda client: client.runs.resume(RUN_ID, waitpoint_id=TOKEN_ID, value=1),
    "cancel": lambda client: client.runs.cancel(RUN_ID),
    "retry": lambda client: client.runs.retry(RUN_ID),
}


class TestLostReply:
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_it_is_asked_for_again_with_the_same_request_and_key(self, call: Callable[[Client], Any]) -> None:
        with answering(LOST, LOST, TAKEN) as (url, asked), Client(url) as client:
            run = call(client)

        assert RUN_ID == str(run.id)
        assert (3, 1) == (len(asked), len(set(asked)))
        assert (3, 1, 32) == (len(keys(asked)), len(set(keys(asked))), len(keys(asked)[0]))

    def test_the_callers_key_is_used_if_there_is_one(self) -> None:
        with answering(LOST, TAKEN) as (url, asked), Client(url) as client:
            client.runs.cancel(RUN_ID, idempotency_key="mine")

        assert ["mine", "mine"] == keys(asked)

    def test_the_first_request_may_still_be_under_way(self) -> None:
        with answering(LOST, IN_FLIGHT, TAKEN) as (url, asked), Client(url) as client:
            client.runs.cancel(RUN_ID)

        assert 3 == len(asked)

    def test_after_three_more_tries_the_caller_is_told(self) -> None:
        with answering(LOST, LOST, LOST, LOST) as (url, asked), Client(url) as client:
            with pytest.raises(ConnectionFailed, match="may have been taken") as caught:
                client.runs.cancel(RUN_ID)

        assert (4, True) == (len(asked), caught.value.perhaps_taken)

    def test_what_only_reads_is_not_asked_again(self) -> None:
        with answering(LOST) as (url, asked), Client(url) as client, pytest.raises(ConnectionFailed):
            client.runs.get(RUN_ID)

        assert (1, []) == (len(asked), keys(asked))


class TestOther:
    @pytest.mark.parametrize(
        ("answer", "error"), [(BUSY, Unavailable), (IN_FLIGHT, IdempotencyKeyInFlight)], ids=["503", "409"]
    )
    def test_a_refusal_is_the_callers(self, answer: bytes, error: type[Exception]) -> None:
        with answering(answer) as (url, asked), Client(url) as client, pytest.raises(error):
            client.runs.cancel(RUN_ID)

        assert 1 == len(asked)

    def test_a_reply_that_is_late_is_not_asked_for_again(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with Client(url, timeout_s=0.2) as client, pytest.raises(ConnectionFailed):
                client.runs.cancel(RUN_ID)

            assert 1 == waiting_connections(listener)

    def test_nobody_there_is_not_asked_again(self, free_port: int) -> None:
        with Client(f"http://127.0.0.1:{free_port}") as client, pytest.raises(ConnectionFailed) as caught:
            client.runs.cancel(RUN_ID)

        assert not caught.value.perhaps_taken

    def test_each_call_has_a_key_of_its_own(self) -> None:
        with serving() as api, Client(api.url) as client:
            api.answer(f"POST /v1/runs/{RUN_ID}/cancel", a_run())
            for _ in range(2):
                client.runs.cancel(RUN_ID)

            assert 2 == len({request.headers["idempotency-key"] for request in api.asked})

    @pytest.mark.parametrize("key", ["k é ☂", '"k"', "x" * 255])
    def test_a_key_arrives_as_it_is(self, key: str) -> None:
        with serving() as api, Client(api.url) as client:
            api.answer(f"POST /v1/runs/{RUN_ID}/cancel", a_run())
            client.runs.cancel(RUN_ID, idempotency_key=key)

            assert key == sent_key(api)

    @pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\x00", " k", "k\x85"])
    def test_what_is_no_key_is_not_sent(self, key: str) -> None:
        with serving() as api, Client(api.url) as client, pytest.raises(ValueError, match="idempotency key"):
            client.runs.cancel(RUN_ID, idempotency_key=key)

        assert [] == api.asked


def sent_key(api: FakeApi) -> str:
    return api.asked[0].headers["idempotency-key"].encode("latin-1").decode()
