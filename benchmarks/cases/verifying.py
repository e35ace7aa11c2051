"""B8: an export, and its verification by an auditor's program in a process of its own.

The bundle is what the server wrote for the runs of B1's kind. Each verification is compared with bare Ed25519
verification by the same library, before and after it on the same core.
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from abeyance import __version__
from abeyance.crypto.signing import FileSigner, public_pem
from abeyance.verifier.assembling import assemble
from benchmarks.cases.throughput import drive
from benchmarks.errors import BenchmarkError
from benchmarks.report import Result
from benchmarks.server import Server
from benchmarks.setting import open_setting
from benchmarks.stores import MakeStore

RUNS = 2_000
CLIENTS = 8
_ROUNDS = 2_000
_QUIET_S = 2.5
_LOOK_S = 0.02
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Verified:
    """What one verification took: seconds, seconds of CPU, memory at its peak (MB). `bare_per_s`: bare
    Ed25519 verifications a second of CPU beside it.
    """

    wall_s: float
    cpu_s: float
    rss_mb: float
    bare_per_s: float


def measure_verifying(make: MakeStore, runs: int | None) -> Result:
    """Runs, an export, and verifications of it: full and fast, by one process and by two."""
    with open_setting(make, CLIENTS) as setting:
        drive(setting.driver, CLIENTS, runs or RUNS)
        _wait_for_checkpoint(setting.server)
        bundle, root = setting.folder / "log.abeyance.jsonl", setting.folder / "root.pub"
        root.write_bytes(_public(setting.folder / "keys" / "root.pem"))
        export_s = _export(setting.server, bundle)
        full, records = _verify(bundle, root)
        several, _ = _verify(bundle, root, "--jobs=2")
        fast, _ = _verify(bundle, root, "--fast")
        return Result(
            case="B8",
            store=setting.store.name,
            clients=1,
            n=records,
            rss_mb=full.rss_mb,
            more={
                "export_records_per_s": records / export_s,
                "bytes_per_record": bundle.stat().st_size / records,
                "full_records_per_s": records / full.cpu_s,
                "full_of_bare_ed25519": records / full.cpu_s / full.bare_per_s,
                "bare_ed25519_per_s": full.bare_per_s,
                "two_jobs_records_per_s": records / several.wall_s,
                "fast_records_per_s": records / fast.cpu_s,
            },
        )


def _wait_for_checkpoint(server: Server) -> None:
    """Return once the log has stood still for two seconds: everything is under a checkpoint then."""
    seen, since = b"", time.monotonic()
    while time.monotonic() - since < _QUIET_S:
        newest = _get(server, "/v1/audit/log/checkpoint")
        if newest != seen:
            seen, since = newest, time.monotonic()
        time.sleep(0.2)


def _get(server: Server, path: str) -> bytes:
    connection = HTTPConnection(server.address.host, server.address.port, timeout=30)
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.key}"})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return body if reply.status == 200 else b""


def _export(server: Server, bundle: Path) -> float:
    """Export everything to a file; the seconds that it took."""
    connection = HTTPConnection(server.address.host, server.address.port, timeout=600)
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    began = time.monotonic()
    connection.request("POST", "/v1/audit/exports", body=b'{"all":true}', headers=headers)
    reply = connection.getresponse()
    if reply.status != 200:
        raise BenchmarkError(f"the export was answered with {reply.status}")
    with bundle.open("wb") as file:
        while piece := reply.read(_PIECE):
            file.write(piece)
    connection.close()
    return time.monotonic() - began


def _public(pem: Path) -> bytes:
    return public_pem(FileSigner.from_pem(pem.read_bytes()).public_key)


def _verify(bundle: Path, root: Path, *flags: str) -> tuple[Verified, int]:
    """One verification in a process of its own; also the number of records. Raises `BenchmarkError`."""
    program = bundle.with_name("abeyance-verify.py")
    program.write_text(assemble(__version__), "utf-8")
    command = [sys.executable, str(program), str(bundle), f"--root-key={root}", "--json", *flags]
    before = _bare_per_s()
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    peak = _watch(process.pid)
    assert process.stdout is not None
    report = json.load(process.stdout)
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    if status != 0:
        raise BenchmarkError(f"the bundle isn't verified: {report['verdict']}")
    bare = (before + _bare_per_s()) / 2
    cpu_s = used.ru_utime + used.ru_stime
    return Verified(wall_s, cpu_s, peak, bare), int(report["records"])


def _watch(pid: int) -> float:
    """Its memory at its peak, in MB, once it has ended."""
    peak = 0
    while found := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
        peak = int(found[1])
        time.sleep(_LOOK_S)
    return peak / 1024


def _bare_per_s() -> float:
    """Ed25519 verifications a second of CPU, of a message as long as a record."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    message = bytes(560)
    signature, public = key.sign(message), key.public_key()
    began = time.thread_time()
    for _ in range(_ROUNDS):
        public.verify(signature, message)
    return _ROUNDS / (time.thread_time() - began)
