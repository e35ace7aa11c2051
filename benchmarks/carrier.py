"""The other system: a process that posts answers to links over plain HTTP.

``python -m benchmarks.carrier FOLDER CONNECTIONS``. A datagram to FOLDER/carrier is an order, ``id url
body``; after the reply goes ``answered id sent-ns replied-ns status body`` to FOLDER/driver. As a sender
of webhooks would, it sends again when the connection is cut or refused. An empty datagram ends it.
"""

import heapq
import select
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.errors import BenchmarkError
from benchmarks.wire import Address, Connection, Reply, mailbox, request, sender

RETRY_S = 0.002
GIVE_UP_S = 60.0
_DATAGRAM = 65_536


@dataclass(slots=True)
class Order:
    """An answer to post. `sent` is when it was first sent, in ns of the monotonic clock."""

    name: str
    address: Address
    message: bytes
    sent: int = 0


class Carrier:
    """Posts orders over a bounded number of connections."""

    def __init__(self, folder: Path, connections: int) -> None:
        self._inbox = mailbox(folder / "carrier")
        self._driver = sender(folder / "driver")
        self._free = connections
        self._idle: list[Connection] = []
        self._busy: dict[int, tuple[Connection, Order]] = {}
        self._queue: deque[Order] = deque()
        self._later: list[tuple[float, int, Order]] = []
        self._poll = select.epoll()
        self._poll.register(self._inbox, select.EPOLLIN)

    def run(self) -> None:
        """Work until the empty datagram comes."""
        self._driver.send(b"ready carrier ")
        while True:
            wait = max(0.0, self._later[0][0] - time.monotonic()) if self._later else -1
            for descriptor, _ in self._poll.poll(wait):
                if descriptor != self._inbox.fileno():
                    self._receive(descriptor)
                elif not self._take(self._inbox.recv(_DATAGRAM)):
                    return
            while self._later and self._later[0][0] <= time.monotonic():
                self._queue.append(heapq.heappop(self._later)[2])
            while self._queue and self._free:
                self._post(self._queue.popleft())

    def _take(self, datagram: bytes) -> bool:
        if not datagram:
            return False
        name, url, body = datagram.decode().split(" ", 2)
        parts = urlsplit(url)
        address = Address(parts.hostname or "", parts.port or 80)
        self._queue.append(Order(name, address, request("POST", parts.path, body=body.encode())))
        return True

    def _post(self, order: Order) -> None:
        order.sent = order.sent or time.monotonic_ns()
        connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._connect(order.address)
            connection.send(order.message)
        except ConnectionError:
            if connection is not None:
                connection.close()
            self._again(order)
            return
        self._free -= 1
        self._busy[connection.fileno()] = (connection, order)

    def _connect(self, address: Address) -> Connection:
        connection = Connection(address)
        self._poll.register(connection, select.EPOLLIN)
        return connection

    def _receive(self, descriptor: int) -> None:
        if descriptor not in self._busy:  # the server closed a connection that was idle
            gone = [each for each in self._idle if each.fileno() == descriptor]
            self._idle = [each for each in self._idle if each.fileno() != descriptor]
            for connection in gone:
                connection.close()
            return
        connection, order = self._busy[descriptor]
        try:
            reply = connection.receive()
        except ConnectionError:
            self._release(descriptor, reuse=False)
            self._again(order)
            return
        if reply is not None:
            self._release(descriptor, reuse=not connection.closing)
            self._report(order, reply)

    def _release(self, descriptor: int, *, reuse: bool) -> None:
        connection, _ = self._busy.pop(descriptor)
        self._free += 1
        if reuse:
            self._idle.append(connection)
        else:
            connection.close()

    def _again(self, order: Order) -> None:
        if time.monotonic_ns() - order.sent > GIVE_UP_S * 1e9:
            raise BenchmarkError(f"{order.name}: the server didn't come back in {GIVE_UP_S:.0f} s")
        heapq.heappush(self._later, (time.monotonic() + RETRY_S, id(order), order))

    def _report(self, order: Order, reply: Reply) -> None:
        head = f"answered {order.name} {order.sent} {time.monotonic_ns()} {reply.status} "
        self._driver.send(head.encode() + reply.body)


if __name__ == "__main__":
    Carrier(Path(sys.argv[1]), int(sys.argv[2])).run()
