"""Serving: gunicorn with its ASGI worker, one loop a process, for `dev`, `serve` and `worker` alike.

The parent process opens nothing; each worker opens stores and engine in its own loop, after the fork, and
drains when it is told to stop.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any, Literal

from gunicorn.app.base import BaseApplication

from abeyance.bootstrap.api_keys import authentication
from abeyance.bootstrap.attempts import notes_of
from abeyance.bootstrap.broken import broken_app
from abeyance.bootstrap.identity import NO_ORIGIN
from abeyance.bootstrap.limits import open_link_limit
from abeyance.bootstrap.logs import GunicornLog, configure_logging
from abeyance.bootstrap.once import Once
from abeyance.bootstrap.opening import Engine, open_engine
from abeyance.bootstrap.ports import wait_for_port
from abeyance.bootstrap.signing_keys import watch_keys
from abeyance.bootstrap.tables import log_rows
from abeyance.console.app import create_app
from abeyance.engine.host import Barrier
from abeyance.errors import AbeyanceError, ConfigurationError, StoreUnavailableError
from abeyance.http.app import HttpServices, create_worker_app
from abeyance.journal.sqlite.lock import FolderLock, mounted_filesystem
from abeyance.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Role = Literal["dev", "serve", "worker"]
Announce = Callable[[str, str | None], None]

_log = logging.getLogger("abeyance.serving")
_HIDDEN = frozenset((".venv", "venv", "node_modules", "__pycache__", ".git"))
_MOST_WATCHED = 2_000
_STARTUP_FAILED = 3


class Process:
    """The ASGI application of one process: it opens the engine at start-up and drains it at shutdown."""

    def __init__(
        self,
        settings: Settings,
        role: Role,
        *,
        reload: bool = False,
        testing_only_barrier: Barrier | None = None,
    ) -> None:
        self.settings = settings
        self.reload = reload
        self._started_once = Once()
        self._warned = Once()
        self._barrier = testing_only_barrier
        self.role = role
        self.address: tuple[str, int] = (settings.host, settings.port)
        self.worker: Any = None
        self._engine: Engine | None = None
        self._stack = AsyncExitStack()
        self._app: Any = None
        self._draining: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request, or the process's life span."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            _log.error("a request failed outside the API", exc_info=error)
            # The server logs it too, with its text.
            raise RuntimeError("a request failed; the log says where") from None

    async def start(self) -> Engine:
        """Open everything in the running loop."""
        engine = await self._stack.enter_async_context(
            open_engine(
                self.settings,
                public_url=self.public_url,
                dev=self.role == "dev",
                testing_only_barrier=self._barrier,
            )
        )
        limit = await self._stack.enter_async_context(open_link_limit(self.settings, engine.stores))
        services = HttpServices(
            runs=engine.runs,
            gate=limit.gate,
            counters=limit.counters,
            auth=authentication(self.settings, engine.api_keys, worker=self.role == "worker"),
            world=engine.stores.world,
            max_waiting=self.settings.max_waiting,
            replies=engine.replies,
            waits=engine.waits,
            notes=notes_of(self.settings, engine.attempts),
            audit=engine.audit,
            keys=engine.api_keys,
            tenants=engine.tenants,
        )
        self._app = create_worker_app(services) if self.role == "worker" else create_app(services)
        self._engine = engine
        watching = asyncio.create_task(watch_keys(engine.stores, self._end))
        self._stack.callback(watching.cancel)
        if self.worker is not None:
            self._take_signals()
        return engine

    async def stop(self) -> None:
        """Drain and close."""
        await self._stack.aclose()

    def public_url(self) -> str:
        """What links are made from; without a setting the bound address, with one warning a server."""
        if self.settings.public_url is not None:
            return self.settings.public_url
        url = url_of(self.address)
        if not self._warned and self.role == "serve":
            self._warned.remember()
            _log.warning(
                "ABEYANCE_PUBLIC_URL is not set: links begin with the address that this server binds, %s", url
            )
        return url

    def _take_signals(self) -> None:
        """Drain on a signal, before the server waits for its connections (docs/adr/0005)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._drain_soon)

    def _end(self) -> None:
        """Stop working, as on a signal."""
        if self.worker is not None:
            self._drain_soon()

    def _drain_soon(self) -> None:
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            if self._engine is not None:
                await self._engine.executor.stop()
        finally:
            self.worker.handle_exit_signal()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        if not await self._started():
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.shield(self.stop())
        await send({"type": "lifespan.shutdown.complete"})

    async def _started(self) -> bool:
        """Start, or say why not. A reloading process goes on without its pack until it is saved again."""
        try:
            await self.start()
        except AbeyanceError as error:
            _log.critical("error[%s]: %s", error.code, error)
        except Exception:
            _log.critical("the process couldn't start", exc_info=True)
        else:
            self._started_once.remember()
            return True
        await self.stop()
        self._app = broken_app
        return self.reload and bool(self._started_once)


def url_of(address: tuple[str, int]) -> str:
    """The http URL of a bound address."""
    host, port = address[0], address[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _sources(settings: Settings) -> list[str]:
    """The project's Python files, watched also while one of them can't be imported."""
    files = (file for file in settings.pack_dir.rglob("*.py") if not _HIDDEN & set(file.parts))
    return [str(file) for file in islice(files, _MOST_WATCHED)]


class Server(BaseApplication):  # type: ignore[misc] # gunicorn is untyped
    """gunicorn, configured by our settings alone."""

    def __init__(self, process: Process, *, ready: Callable[[str], None]) -> None:
        self._process = process
        self._ready = ready
        super().__init__()

    def load_config(self) -> None:
        """Set what we set; nothing is read from gunicorn's own files or variables."""
        settings, process = self._process.settings, self._process

        def when_ready(server: Any) -> None:
            self._ready(url_of(server.LISTENERS[0].sock.getsockname()))

        def post_fork(server: Any, worker: Any) -> None:
            process.address = server.LISTENERS[0].sock.getsockname()[:2]

        def post_worker_init(worker: Any) -> None:
            process.worker = worker

        options = {
            "bind": [f"{settings.host}:{settings.port}"],
            "workers": settings.workers if process.role == "serve" else 1,
            "worker_class": "asgi",
            "asgi_lifespan": "on",
            "proc_name": f"abeyance {process.role}",
            "max_requests": 0,
            "timeout": 0,
            "graceful_timeout": settings.drain_s + 5,
            "accesslog": None,
            "errorlog": "-",
            # At debug level it writes paths and queries.
            "loglevel": "info" if settings.log_level == "debug" else "warning",
            "logger_class": GunicornLog,
            "control_socket_disable": True,
            "reload": process.reload,
            "reload_extra_files": _sources(settings) if process.reload else [],
            "when_ready": when_ready,
            "post_fork": post_fork,
            "post_worker_init": post_worker_init,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def serve(self) -> None:
        """Serve until told to stop. A start that failed has said why and exits with 1.

        The forked workers' own codes stay: the parent reads from them that starting again is no use.
        """
        parent = os.getpid()
        try:
            self.run()
        except SystemExit as end:
            sys.exit(1 if end.code == _STARTUP_FAILED and os.getpid() == parent else end.code)

    def load(self) -> Process:
        """The ASGI application; opened later, in the worker's loop."""
        _configure_logging(self._process.settings, self._process.role)
        return self._process


def _configure_logging(settings: Settings, role: Role) -> None:
    configure_logging(settings.log_level, secrets=(settings.api_key,), dev=role == "dev")


def serve_dev(settings: Settings, *, reload: bool, announce: Announce) -> None:
    """One process on this machine, with a key of its own if none is set."""
    if settings.auth and settings.api_key is None:
        settings = settings.model_copy(update={"api_key": f"abk_{secrets.token_urlsafe(24)}"})
    _configure_logging(settings, "dev")
    token = settings.api_key if settings.auth else None
    _check_that_nobody_serves(settings)
    # gunicorn warns of its reloader at each start, which is what this command is for.
    logging.getLogger("gunicorn.error").addFilter(lambda line: not str(line.msg).startswith("Reloader is on"))
    process = Process(settings.model_copy(update={"workers": 1}), "dev", reload=reload)
    Server(process, ready=lambda url: announce(url, token)).serve()


def _check_that_nobody_serves(settings: Settings) -> None:
    """Refuse a second process on a SQLite store, or on this port, before anybody is told where it listens."""
    file = settings.journal_file
    if file is not None:
        FolderLock.acquire(file.with_suffix(".lock"), mounted_filesystem).release()
    wait_for_port(settings)


def _check_that_the_log_has_a_name(settings: Settings) -> None:
    """Refuse a new store without an origin here, in one line: each forked process would say it again.

    A store that can't be reached now is for those processes to wait for, or to complain of.
    """
    if settings.origin is not None:
        return
    with contextlib.suppress(StoreUnavailableError):
        if not log_rows(settings):
            raise ConfigurationError(NO_ORIGIN)


def serve(settings: Settings) -> None:
    """The API, with `settings.workers` processes."""
    _configure_logging(settings, "serve")
    _check_that_the_log_has_a_name(settings)
    _check_that_nobody_serves(settings)
    Server(Process(settings, "serve"), ready=lambda url: _log.info("serving at %s", url)).serve()


def serve_worker(settings: Settings) -> None:
    """An executing process without the API."""
    _configure_logging(settings, "worker")
    _check_that_the_log_has_a_name(settings)
    _check_that_nobody_serves(settings)
    Server(Process(settings, "worker"), ready=lambda url: _log.info("worker's health at %s", url)).serve()
