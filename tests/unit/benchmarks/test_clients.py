"""The benchmarks' own HTTP client and the loop that its clients run on."""

import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.loop import Client, Loop, Mail
from benchmarks.wire import Address, Connection, Reply, request


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def connect(server: socket.socket) -> tuple[Connection, socket.socket]:
    connection = Connection(Address(*server.getsockname()))
    return connection, server.accept()[0]


class TestConnection:
    def test_a_reply_in_pieces_is_whole_only_with_its_last_byte(self, server: socket.socket) -> None:
        connection, peer = connect(server)
        pieces = [b"HTTP/1.1 200 OK\r\nContent-", b"Length: 4\r\n\r\nab", b"cd"]
        received = []
        for piece in pieces:
            peer.sendall(piece)
            received.append(connection.receive())
        peer.close()
        connection.close()

        assert [None, None, Reply(200, b"abcd")] == received

    def test_what_follows_a_reply_belongs_to_the_next(self, server: socket.socket) -> None:
        connection, peer = connect(server)
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\naHTTP/1.1 409 Conflict\r\n")
        first = connection.receive()
        peer.sendall(b"content-length: 1\r\nconnection: close\r\n\r\nb")
        second = connection.receive()
        peer.close()
        connection.close()

        assert (Reply(200, b"a"), Reply(409, b"b"), True) == (first, second, connection.closing)

    def test_a_reply_without_a_length_is_wrong(self, server: socket.socket) -> None:
        connection, peer = connect(server)
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with pytest.raises(BenchmarkError, match="without Content-Length"):
            connection.receive()
        peer.close()
        connection.close()

    def test_the_other_sides_end_is_a_connection_error(self, server: socket.socket) -> None:
        connection, peer = connect(server)
        peer.close()
        with pytest.raises(ConnectionError):
            connection.receive()
        connection.close()


class TestRequest:
    def test_a_body_comes_with_its_type_and_length(self) -> None:
        expected = (
            b"POST /v1/runs HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer k\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )

        assert expected == request("POST", "/v1/runs", key="k", body=b"{}")


class TestLoop:
    def test_mail_that_came_first_is_kept_for_who_asks_later(self) -> None:
        loop, got = Loop(), []

        def client() -> Client[None]:
            yield 0.001
            got.append((yield Mail("link", "run")))

        loop.deliver(Mail("link", "run"), "url")
        loop.run(client())

        assert got == ["url"]

    def test_clients_are_resumed_in_the_order_of_their_pauses(self) -> None:
        loop, order = Loop(), []

        def client(pause: float) -> Client[None]:
            yield pause
            order.append(pause)

        loop.run(client(0.02), client(0.0), client(0.01))

        assert order == [0.0, 0.01, 0.02]

    def test_what_can_be_read_is_read_while_clients_wait(self) -> None:
        loop, got = Loop(), []
        reading, writing = socket.socketpair()
        loop.read(reading.fileno(), lambda: loop.deliver(Mail("word", 1), reading.recv(10)))

        def client() -> Client[None]:
            got.append((yield Mail("word", 1)))

        writer = threading.Timer(0.01, writing.sendall, [b"hello"])
        writer.start()
        loop.run(client())
        writer.join()
        loop.forget(reading.fileno())
        reading.close()
        writing.close()

        assert got == [b"hello"]
