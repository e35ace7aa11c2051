"""Idempotency keys over real servers: several processes at once, and kills between effect and reply."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from abeyance.client import Client
from tests.support.killing import KEY, PATIENCE_S, Place, Victim, victim
from tests.support.raw_http import RawResponse, exchange, request

pytestmark = pytest.mark.slow

START = {"flow": "kill.flow", "wait": False}


@pytest.fixture
def server(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Victim]:
    url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
    with victim(tmp_path / "deployment", url) as made:
        yield made


def ask(
    server: Victim, path: str, body: object = None, *keys: str, method: str = "POST", port: int = 0
) -> RawResponse | None:
    """One request; `None` if no whole reply came."""
    headers = [("Authorization", f"Bearer {KEY}"), *(("Idempotency-Key", key) for key in keys)]
    data = b"" if body is None else json.dumps(body).encode()
    headers += [("Content-Type", "application/json")] if data else []
    try:
        return exchange(port or server.port, request(path, data, headers, method=method), timeout_s=60)
    except (OSError, ValueError):
        return None


def read(reply: RawResponse | None) -> Any:
    assert reply is not None
    return json.loads(reply.body)


def all_runs(server: Victim) -> list[str]:
    """The ids of all runs, once the list has caught up with the journal."""
    started = read(ask(server, "/v1/runs", START))["id"]
    end = time.monotonic() + PATIENCE_S
    while True:
        found = [each["id"] for each in read(ask(server, "/v1/runs?limit=100", method="GET"))["data"]]
        if started in found:
            return [each for each in found if each != started]
        assert time.monotonic() < end, server.said()
        time.sleep(0.02)


def wait_for_pause(server: Victim, run_id: str) -> str:
    """The id of the wait that the run comes to."""
    end = time.monotonic() + PATIENCE_S
    while True:
        run = read(ask(server, f"/v1/runs/{run_id}", method="GET"))
        tokens = run.get("waitingFor", {}).get("tokens", [])
        if tokens:
            return str(tokens[0]["tokenId"])
        assert time.monotonic() < end, server.said()
        time.sleep(0.02)


def kinds(server: Victim, run_id: str) -> list[str]:
    """The kinds of the run's events."""
    found = read(ask(server, f"/v1/runs/{run_id}/journal?limit=1000", method="GET"))
    return [each["kind"] for each in found["data"]]


def was_replayed(reply: RawResponse | None) -> bool:
    assert reply is not None
    return reply.header("idempotency-replayed") == "true"


class TestKilledServer:
    @pytest.mark.case("E05")
    @pytest.mark.parametrize(("place", "effect"), [("append started", False), ("stored started", True)])
    def test_a_start_that_is_sent_again_starts_one_run(
        self, server: Victim, place: str, effect: bool
    ) -> None:
        server.start(Place(place))
        lost = ask(server, "/v1/runs", START, "k")
        server.kill()
        server.start()

        again, replayed = (ask(server, "/v1/runs", START, "k") for _ in range(2))

        assert lost is None
        assert (202, effect) == (again and again.status, was_replayed(again))
        assert (read(again)["id"], True) == (read(replayed)["id"], was_replayed(replayed))
        assert [read(again)["id"]] == all_runs(server)

    def test_an_answer_that_is_sent_again_is_taken_once(self, server: Victim) -> None:
        server.start(Place("stored wait-token-completed"))
        run_id = read(ask(server, "/v1/runs", START))["id"]
        body = {"waitpointId": wait_for_pause(server, run_id), "value": "yes"}
        path = f"/v1/runs/{run_id}/resume"
        lost = ask(server, path, body, "k")
        server.kill()
        server.start()

        again = ask(server, path, body, "k")
        other = ask(server, path, {**body, "value": "no"}, "k")

        assert lost is None
        assert (200, "completed", True) == (
            again and again.status, read(again)["status"], was_replayed(again),
        )  # fmt: skip
        assert (409, "idempotency-key-body-mismatch") == (
            other and other.status,
            read(other)["error"]["code"],
        )
        assert 1 == kinds(server, run_id).count("wait-token-completed")

    def test_a_cancel_that_is_sent_again_is_answered_with_the_run(self, server: Victim) -> None:
        server.start(Place("stored cancelled"))
        run_id = read(ask(server, "/v1/runs", START))["id"]
        wait_for_pause(server, run_id)
        lost = ask(server, f"/v1/runs/{run_id}/cancel", None, "k")
        server.kill()
        server.start()

        again = ask(server, f"/v1/runs/{run_id}/cancel", None, "k")

        assert lost is None
        assert (200, "cancelled", True) == (
            again and again.status, read(again)["status"], was_replayed(again),
        )  # fmt: skip
        assert 1 == kinds(server, run_id).count("cancelled")

    def test_a_reply_is_the_same_bytes_after_a_restart(self, server: Victim) -> None:
        server.start()
        first = ask(server, "/v1/runs", {"flow": "kill.flow"}, "k")
        assert 0 == server.stop()
        server.start()

        second = ask(server, "/v1/runs", {"flow": "kill.flow"}, "k")

        assert first is not None
        assert second is not None
        assert (201, False, True) == (first.status, was_replayed(first), was_replayed(second))
        assert (first.status, first.body, first.header("location")) == (
            second.status, second.body, second.header("location"),
        )  # fmt: skip


class TestManyProcesses:
    @pytest.mark.case("F02")
    def test_one_key_starts_one_run_whoever_is_asked(self, postgres_url: str, tmp_path: Path) -> None:
        """Four processes, eight requests at once, 25 rounds."""
        with victim(tmp_path / "deployment", postgres_url) as server, ThreadPoolExecutor(8) as threads:
            server.variables["ABEYANCE_WORKERS"] = "4"
            server.start()
            started = []
            for number in range(25):
                together = threading.Barrier(8)

                def send(key: str, together: threading.Barrier = together) -> RawResponse | None:
                    together.wait()
                    return ask(server, "/v1/runs", START, key)

                replies = list(threads.map(send, [f"k{number}"] * 8))

                statuses = {reply.status if reply else None for reply in replies}
                assert statuses <= {202, 409}, statuses
                refused = {read(each)["error"]["code"] for each in replies if each and each.status == 409}
                assert refused <= {"idempotency-key-in-flight"}
                (run_id,) = {read(each)["id"] for each in replies if each and each.status == 202}
                started.append(run_id)

            assert sorted(started) == sorted(all_runs(server))


class TestHeaders:
    @pytest.mark.case("E03", "F06")
    def test_what_is_a_key_is_the_same_over_a_socket(self, server: Victim) -> None:
        server.start()
        taken = ask(server, "/v1/runs", START, "k", "k")
        quoted = ask(server, "/v1/runs", START, '"k"')
        bad = [("k", "other"), ("",), ("x" * 256,), ("\xff",)]
        refused = [ask(server, "/v1/runs", START, *keys) for keys in bad]
        underscore = exchange(
            server.port,
            request(
                "/v1/runs",
                json.dumps(START).encode(),
                [
                    ("Authorization", f"Bearer {KEY}"),
                    ("Content-Type", "application/json"),
                    ("Idempotency_Key", "other"),
                    ("Idempotency-Key", "k"),
                ],
            ),
        )

        assert read(taken)["id"] == read(quoted)["id"] == read(underscore)["id"]
        assert [400] * 4 == [each.status if each else None for each in refused]
        assert {"bad-input"} == {read(each)["error"]["code"] for each in refused}


def whole_request(client: socket.socket) -> bytes:
    """Head and body: a client may send them in two pieces."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += client.recv(65_536)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)\r\ncontent-length: (\d+)", head)[1])  # type: ignore[index]
    while len(body) < length:
        body += client.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def losing_first_reply(port: int) -> Iterator[int]:
    """A port that leads to `port`, and hangs up on the first client instead of giving it its reply."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def carry() -> None:
            for number in range(2):
                client, _ = listener.accept()
                with client, socket.create_connection(("127.0.0.1", port)) as server:
                    server.sendall(whole_request(client))
                    reply = server.recv(65_536)
                    if number > 0:
                        client.sendall(reply)

        thread = threading.Thread(target=carry)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(PATIENCE_S)


class TestClient:
    def test_a_lost_reply_is_asked_for_again_and_costs_nothing(self, server: Victim) -> None:
        server.start()
        with losing_first_reply(server.port) as port, Client(f"http://127.0.0.1:{port}", KEY) as client:
            run = client.runs.start(flow="kill.flow", wait=False)

        assert [run.id] == [str(each) for each in all_runs(server)]
