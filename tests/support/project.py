"""A project of a user's own in a folder: its commands and its servers, as a user has them.

Its virtual environment, if it has one, holds the built wheel; what the wheel depends on is borrowed from the
environment that the tests run in, so that nothing is downloaded twice.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pages import ROOT

PATIENCE_S = 60.0

# What `curl` does in the documents, for machines that have none: -X, -H, -d, -s and a URL.
_CURL = """
import sys, urllib.request, urllib.error
words, headers, options = sys.argv[1:], {}, {}
while words:
    word = words.pop(0)
    if word == "-H":
        name, _, value = words.pop(0).partition(":")
        headers[name] = value.strip()
    elif word in ("-X", "-d"):
        options[word] = words.pop(0)
    elif word != "-s":
        url = word
body = options["-d"].encode() if "-d" in options else None
request = urllib.request.Request(url, body, headers, method=options.get("-X"))
try:
    reply = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    reply = error
sys.stdout.write(reply.read().decode())
"""

# Like an installed command it doesn't put the folder that it is started in on Python's path (-P).
_ABEYANCE = f"""#!/bin/sh
PYTHONPATH={shlex.quote(str(ROOT / "src"))} exec {shlex.quote(sys.executable)} -P -m abeyance "$@"
"""


def wait_until(holds: Callable[[], bool], what: str, *, within_s: float = PATIENCE_S) -> None:
    """Return once `holds()`. A deadline for a test that would hang, not a way to time anything."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"not within {within_s:.0f} s: {what}"
        time.sleep(0.02)


@dataclass
class Server:
    """A process that serves, and what it has printed."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def printed(self) -> str:
        """Everything on its stdout and stderr so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str) -> None:
        """Return once it has printed `text`."""
        wait_until(lambda: text in self.printed or self._fail(), f"{text!r} in:\n{self.printed}")

    def children(self) -> set[int]:
        """The processes that it has started."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        pairs = (line.split() for line in listed.stdout.splitlines())
        return {int(pid) for pid, parent in pairs if int(parent) == self.process.pid}

    def kill(self) -> None:
        """End it and its children at once, as a machine does that loses its power."""
        for pid in (self.process.pid, *self.children()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def _fail(self) -> bool:
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.printed}"
        return False


@dataclass
class Project:
    """A folder, the variables of whoever works in it, and the servers that were started there."""

    folder: Path
    environment: dict[str, str]
    servers: list[Server] = field(default_factory=list)

    def shell(self, code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Type `code` into a terminal."""
        command = ["bash", "-e", "-u", "-o", "pipefail", "-c", code]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert not check or done.returncode == 0, f"{code}\nexits with {done.returncode}: {done.stderr}"
        return done

    def serve(self, code: str, **variables: str) -> Server:
        """Type `code` into a terminal of its own and leave it there."""
        log = self.folder.parent / f"server-{len(self.servers)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {code}"],
                cwd=self.folder,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.servers.append(Server(process, log))
        return self.servers[-1]

    def stop(self) -> None:
        """Stop what still serves."""
        for server in self.servers:
            if server.process.poll() is None:
                server.stop()


@contextmanager
def project(folder: Path, variables: Mapping[str, str] = {}) -> Iterator[Project]:
    """A project in `folder`, made if need be. `abeyance` runs these sources, unless it is installed there."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ABEYANCE_", "PYTHON"))}
    path = os.pathsep.join((str(_commands(folder.parent)), str(Path(sys.executable).parent), kept["PATH"]))
    made = Project(folder, kept | {"PATH": path, "PYTHONUNBUFFERED": "1"} | dict(variables))
    try:
        yield made
    finally:
        made.stop()


def borrow_dependencies(environment: Path) -> None:
    """Let a virtual environment find this one's packages, after its own; editable ones are not among them."""
    (library,) = environment.glob("lib/python*/site-packages")
    (library / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _commands(parent: Path) -> Path:
    """A folder with the commands of whoever works in the checkout, and one that a machine may lack."""
    folder = parent / "commands"
    folder.mkdir(exist_ok=True)
    (folder / "abeyance").write_text(_ABEYANCE)
    (folder / "abeyance").chmod(0o755)
    if shutil.which("curl") is None and not (folder / "curl").exists():
        (folder / "curl").write_text(f"#!{sys.executable}\n{_CURL}")
        (folder / "curl").chmod(0o755)
    return folder
