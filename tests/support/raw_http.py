"""An HTTP/1.1 client that sends exactly the bytes it is given and stops wherever a test wants.

`request` and `chunk` write messages, well-formed or not; `RawConnection` sends them in pieces, half-closes,
resets, and reads replies. It knows just enough of RFC 9112 to read what our own servers send.
"""

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class RawResponse:
    """One final reply. `headers` have lower-case names; `interim` are the statuses sent before it (100)."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    interim: tuple[int, ...] = ()

    def header(self, name: str) -> str | None:
        """The first value of a header, `None` without one."""
        return next((value for key, value in self.headers if key == name.lower()), None)


def request(
    path: str,
    body: bytes = b"",
    headers: Iterable[tuple[str, str]] = (),
    *,
    method: str = "POST",
    length: int | None = None,
) -> bytes:
    """A request as bytes. `length` is the Content-Length; left out there is none unless there is a body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers)]
    if length is not None or body:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked(path: str, pieces: Iterable[bytes], headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """A request with `pieces` as they are behind its header; make them with `chunk`."""
    return request(path, headers=[*headers, ("Transfer-Encoding", "chunked")]) + b"".join(pieces)


def chunk(data: bytes) -> bytes:
    """One chunk; of no data it is the last one, without trailers."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class RawConnection:
    """One TCP connection to loopback. Every wait ends after `timeout_s` seconds with `TimeoutError`."""

    def __init__(self, port: int, *, timeout_s: float = 10.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send all of `data`. A server that has closed already is no error: its reply may still be there."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def half_close(self) -> None:
        """Send the end of the stream (FIN) and go on reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close at once with RST, as a process that is killed with unread data does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def read(self) -> RawResponse | None:
        """The next final reply, `None` if the server closes without one, `ValueError` on half a reply."""
        interim: list[int] = []
        while (head := self._until(b"\r\n\r\n")) is not None:
            status_line, *lines = head.decode("latin-1").split("\r\n")
            status = int(status_line.split(" ")[1])
            if 100 <= status < 200:
                interim.append(status)
                continue
            pairs = [line.partition(":") for line in lines]
            headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
            return RawResponse(status, headers, self._body(status, dict(headers)), tuple(interim))
        return None

    def read_interim(self) -> int:
        """The status of the next interim reply; raises `ValueError` if something else comes."""
        head = self._until(b"\r\n\r\n")
        status = int(head.split(b" ")[1]) if head is not None else 0
        if not 100 <= status < 200:
            raise ValueError(f"expected an interim reply, not {status}")
        return status

    def is_closed(self) -> bool:
        """Whether the server ends the connection (within the time limit) without another byte."""
        return not self._buffer and not self._receive()

    def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") == "chunked":
            return self._chunks()
        body = b""
        while self._buffer or self._receive():
            body, self._buffer = body + self._buffer, b""
        return body

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._line(), 16):
            body += self._exactly(size)
            self._exactly(2)
        self._line()
        return body

    def _line(self) -> bytes:
        line = self._until(b"\r\n")
        if line is None:
            raise ValueError("the server closed within its reply")
        return line

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._buffer:
            if not self._receive():
                if self._buffer:
                    raise ValueError("the server closed within its reply")
                return None
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not self._receive():
                raise ValueError("the server closed within its reply")
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(65_536)
        except ConnectionResetError:
            return False
        self._buffer += data
        return bool(data)


def exchange(
    port: int, data: bytes, *, half_close: bool = False, timeout_s: float = 10.0
) -> RawResponse | None:
    """Send `data` on a connection of its own and return the reply."""
    with RawConnection(port, timeout_s=timeout_s) as connection:
        connection.send(data)
        if half_close:
            connection.half_close()
        return connection.read()
