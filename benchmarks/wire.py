"""The clients' side of the wire: keep-alive HTTP over a bare socket, and datagrams.

Driver and carrier share the machine with what they measure, so they do as little as a client can: a
request is bytes that were put together before, a reply is cut at its Content-Length.
"""

import re
import socket
from pathlib import Path
from typing import NamedTuple

from benchmarks.errors import BenchmarkError

_CHUNK = 65_536
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


class Reply(NamedTuple):
    """Status and body of a response."""

    status: int
    body: bytes


class Address(NamedTuple):
    """Where the server listens."""

    host: str
    port: int


class Connection:
    """One connection with one request under way at a time."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.closing = False

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def receive(self) -> Reply | None:
        """Take what is there; the reply if it is whole. Raises `ConnectionError` if the server is gone."""
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = _LENGTH.search(self._received, 0, head)
        if length is None:
            raise BenchmarkError("a reply without Content-Length: " + self._received[:head].decode("latin-1"))
        end = head + 4 + int(length[1])
        if len(self._received) < end:
            return None
        reply = Reply(int(self._received[9:12]), self._received[head + 4 : end])
        self.closing = _CLOSE.search(self._received, 0, head) is not None
        self._received = self._received[end:]
        return reply

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def request(method: str, path: str, *, key: str | None = None, body: bytes | None = None) -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: bench"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "\r\n"]).encode() + (body or b"")


def exchange(address: Address, message: bytes) -> Reply:
    """One request over a connection of its own."""
    connection = Connection(address)
    try:
        connection.send(message)
        while (reply := connection.receive()) is None:
            pass
        return reply
    finally:
        connection.close()


def mailbox(path: Path) -> socket.socket:
    """A datagram socket that others send to."""
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    inbox.bind(str(path))
    path.chmod(0o666)
    return inbox


def sender(path: Path) -> socket.socket:
    """A datagram socket that sends to one mailbox."""
    out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    out.connect(str(path))
    return out
