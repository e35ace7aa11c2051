"""The server under test: `abeyance serve` as a user starts it, in a process group of its own."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks import processes
from benchmarks.errors import BenchmarkError
from benchmarks.wire import Address, exchange, request

ROOT = Path(__file__).resolve().parent.parent
START_S = 60.0
STOP_S = 30.0


class Server:
    """One deployment's server, which may be killed and started again."""

    def __init__(self, folder: Path, store: Mapping[str, str]) -> None:
        self.folder = folder
        self.address = Address("127.0.0.1", _free_port())
        self.key = f"abk_{secrets.token_urlsafe(24)}"
        self.environment = self._environment(store)
        self._process: subprocess.Popen[bytes] | None = None
        if not (folder / "keys").exists():
            self._abeyance("keys", "make", str(folder / "keys"))

    @property
    def pid(self) -> int:
        """The process; its workers are below it."""
        if self._process is None:
            raise BenchmarkError("the server isn't running")
        return self._process.pid

    def launch(self) -> None:
        """Start the process, and don't wait for it."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "abeyance", "serve"],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self) -> None:
        """Start it and return once it is ready."""
        self.launch()
        deadline = time.monotonic() + START_S
        while not self._ready():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(f"the server did not start:\n{self.said()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it as an operator does; it must end with 0."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.terminate()
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise BenchmarkError(f"the server did not stop in {STOP_S:.0f} s:\n{self.said()}") from None
        if code != 0:
            raise BenchmarkError(f"the server ended with {code}:\n{self.said()}")

    def kill(self) -> None:
        """kill -9 of it and all its processes."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def rss_mb(self) -> float:
        """Resident memory of all its processes."""
        return processes.rss_mb(self.pid)

    def said(self) -> str:
        """The end of its log."""
        log = self.folder / "server.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join([line for line in lines if "abeyance.http.request" not in line][-60:])

    def _environment(self, store: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("ABEYANCE_")}
        # Python's path may be given relative to here, and the server runs elsewhere.
        paths = [os.path.abspath(path) for path in own.get("PYTHONPATH", "").split(os.pathsep) if path]
        return own | {
            "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)]),
            "ABEYANCE_ORIGIN": "bench.example/runs",
            "ABEYANCE_KEY_DIR": str(self.folder / "keys"),
            "ABEYANCE_DATA_DIR": str(self.folder / "data"),
            "ABEYANCE_API_KEY": self.key,
            "ABEYANCE_HOST": self.address.host,
            "ABEYANCE_PORT": str(self.address.port),
            "ABEYANCE_PUBLIC_URL": f"http://{self.address.host}:{self.address.port}",
            "ABEYANCE_PROJECT_DIR": str(ROOT),
            "ABEYANCE_PACK": "benchmarks.pack",
            "ABEYANCE_LINK_RATE": "0",
            "BENCH_SOCKET": str(self.folder / "driver"),
            **store,
        }

    def _abeyance(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "abeyance", *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, check=False
        )
        if done.returncode:
            raise BenchmarkError(f"abeyance {' '.join(arguments)} failed:\n{done.stderr.decode()}")

    def _ready(self) -> bool:
        try:
            return exchange(self.address, request("GET", "/ready")).status == 200
        except OSError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
