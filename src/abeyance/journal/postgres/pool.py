"""A few sessions, opened when they are first needed and used last in, first out.

The session that was used last is the one whose server process has everything in its caches. Nothing is
opened before a fork: a process that finds sessions of its parent forgets them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg.pq.abc import PGresult

from abeyance.errors import StoreUnavailableError
from abeyance.journal.postgres.failures import translate
from abeyance.journal.postgres.session import Session
from abeyance.journal.postgres.wire import Statement

CLOSE_TIMEOUT_S = 10.0


class Pool:
    """Runs statements on at most `size` sessions, which `connect` makes."""

    def __init__(self, connect: Callable[[], Awaitable[Session]], size: int, wait_timeout_s: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_timeout_s = wait_timeout_s
        self._start_over()

    def _start_over(self) -> None:
        self._process = os.getpid()
        self._idle: list[Session] = []
        self._free = asyncio.Semaphore(self._size)
        self._closed = False

    @property
    def idle(self) -> int:
        """How many sessions are open and unused."""
        return sum(not session.broken for session in self._idle)

    async def run(self, statement: Statement, *values: Any) -> PGresult:
        """The result of one statement. Raises what `failures.translate` says, else `psycopg.Error`."""
        packed = statement.pack(values)
        session = await self._take()
        try:
            return await session.run(statement, packed)
        except psycopg.Error as error:
            lost = session.broken
            known = translate(error, lost=lost)
            if isinstance(known, StoreUnavailableError):
                session.close()
            if known is None:
                raise
            raise known from error
        finally:
            self._give_back(session)

    async def _take(self) -> Session:
        if self._process != os.getpid():
            self._start_over()
        await self._wait_for_room()
        try:
            while self._idle:
                session = self._idle.pop()
                if not session.broken:
                    return session
            return await self._connect()
        except BaseException:
            self._free.release()
            raise

    async def _wait_for_room(self) -> None:
        if self._closed:
            raise StoreUnavailableError("the store is closed")
        try:
            if not self._free.locked():
                await self._free.acquire()
                return
            async with asyncio.timeout(self._wait_timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreUnavailableError("all connections to the database are busy") from error

    def _give_back(self, session: Session) -> None:
        if session.busy:  # its task was cancelled: the statement ends first
            session.on_idle = lambda: self._give_back(session)
            return
        session.on_idle = None
        if self._closed:
            session.close()
        elif not session.broken:
            self._idle.append(session)
        self._free.release()

    async def close(self) -> None:
        """Wait for the statements that are under way, then end every session."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for _ in range(self._size):
                    await self._free.acquire()
        except TimeoutError:
            pass  # a session that is still busy ends itself when it is given back
        for session in self._idle:
            session.close()
        self._idle.clear()
