"""A network between client and server that can be cut in the middle of an exchange."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self


class CuttableNetwork:
    """A TCP port of loopback in front of a server's Unix socket; a context manager."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._cut_request: Callable[[bytes], bool] | None = None
        self._cut_reply = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut_everything()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def url(self, database: str = "postgres") -> str:
        """The database as it is reached through this network."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}/{database}?sslmode=disable&gssencmode=disable"

    def cut_next_request(self, holding: bytes) -> None:
        """Drop the next request that holds these bytes, and the connection it is on."""
        self._cut_request = lambda data: holding in data

    def cut_next_reply(self, holding: bytes) -> None:
        """Let the next request that holds these bytes through, drop its reply and the connection."""

        def pass_on(data: bytes) -> bool:
            self._cut_reply = holding in data
            return False

        self._cut_request = pass_on

    def _cut_everything(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self._socket))
        self._writers |= {to_client, to_server}
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        await asyncio.gather(
            self._pump(from_client, to_server, self._drops_request),
            self._pump(from_server, to_client, self._drops_reply),
            return_exceptions=True,
        )
        for writer in (to_client, to_server):
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drops: Callable[[bytes], bool]
    ) -> None:
        while data := await reader.read(1 << 20):
            if drops(data):
                self._cut_everything()
                return
            writer.write(data)
            await writer.drain()
        writer.close()

    def _drops_request(self, data: bytes) -> bool:
        if self._cut_request is None or not self._cut_request(data):
            if self._cut_reply:
                self._cut_request = None
            return False
        self._cut_request = None
        return True

    def _drops_reply(self, _: Any) -> bool:
        cut, self._cut_reply = self._cut_reply, False
        return cut
