"""The main job, end to end, on this machine: `make demo`.

Starts a server on an empty SQLite store, starts a run over HTTP, lets another process ("the carrier")
answer at the link that the tool handed out, prints the run's journal, verifies every event, and shows that
one flipped byte in a copy of the store is found. Then it exports the records, and verifies the file as an
auditor does, without the store. Everything lies in a temporary folder and ends with this
program.
"""

import base64
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHOP = Path(__file__).parent / "shop"
CARRIER = """
import json, sys, urllib.request
asked = json.loads(open(sys.argv[1]).readlines()[-1])
answer = json.dumps({"pickupId": "pk_7", "pickupAt": "2026-12-01T09:00:00Z"}).encode()
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(asked["callbackUrl"], answer, headers, method="POST")
with urllib.request.urlopen(request) as reply:
    print(f"the carrier posted its answer: HTTP {reply.status} {reply.read().decode()}")
"""


def main() -> None:
    """Run the demo; any failure ends it with a non-zero exit code."""
    with tempfile.TemporaryDirectory(prefix="abeyance-demo-") as folder:
        home = Path(folder)
        run_id = _run_the_main_job(home)
        _verify(home, run_id)
        _audit(home)
    _say("That was it. What to try next")
    print("* cd examples/shop && ../../.venv/bin/abeyance dev")
    print("  serves this pack; then, in another terminal there:")
    print('  ../../.venv/bin/abeyance runs start --flow=shop.ship-order --input=\'{"orderId":"ord_1001"}\'')
    print("* docs/quickstart.md: your own tool that pauses, in a project of your own")


def _run_the_main_job(home: Path) -> str:
    with _server(home):
        _say("1. Start shop.ship-order over HTTP. Its tool hands a link to the carrier and pauses the run")
        run = _abeyance(home, "runs", "start", "--flow=shop.ship-order", '--input={"orderId":"ord_1001"}')
        print(json.dumps({key: run[key] for key in ("id", "status", "waitingFor")}, indent=2))
        _expect(run["status"] == "suspended", "the run waits")

        _say("2. The carrier, another process, answers at the link with plain HTTP")
        subprocess.run([sys.executable, "-c", CARRIER, str(home / "carrier.jsonl")], check=True)

        _say("3. The run went on behind the reply")
        run = _until_ended(home, run["id"])
        print(json.dumps({key: run[key] for key in ("id", "status", "output")}, indent=2))
        _expect(run["status"] == "completed", "the run completed with the answer")

        _say("4. Its journal: every transition is an event, signed and chained")
        _abeyance(home, "runs", "journal", run["id"], "--table", show=True)
        _export(home, str(run["id"]))
        return str(run["id"])


def _export(home: Path, run_id: str) -> None:
    """All that was signed, in one file; again until the run's end is under a checkpoint."""
    deadline = time.monotonic() + 20
    bundle = home / "log.abeyance.jsonl"
    _say("5. Export the records: everything that was signed, in one file")
    while True:
        _abeyance(home, "audit", "export", "--all", "--out", str(bundle), quiet=True)
        report = _abeyance(home, "audit", "verify", str(bundle), "--root-key", str(_root(home)), "--json")
        if report["unfinishedRuns"] == 0 and run_id in _runs_in(bundle):
            print(f"{report['size']} records of {report['log']}, {bundle.stat().st_size:,} bytes")
            return
        _expect(time.monotonic() < deadline, "the run's end is signed")
        bundle.unlink()


def _runs_in(bundle: Path) -> set[str]:
    events = [line["event"] for line in map(json.loads, bundle.read_text().splitlines()) if "event" in line]
    return {json.loads(base64.b64decode(event["payload"]))["run"] for event in events}


def _root(home: Path) -> Path:
    return home / "data" / "keys" / "root.pub"


def _audit(home: Path) -> None:
    _say("8. What an auditor gets: the file, the root's public key, and a verifier in one file; no server")
    verifier = home / "abeyance-verify.py"
    _abeyance(home, "audit", "verifier", "--out", str(verifier), show=True)
    bundle = home / "log.abeyance.jsonl"
    command = [sys.executable, str(verifier), str(bundle), "--root-key", str(_root(home))]
    _expect(subprocess.run(command, cwd=home).returncode == 0, "the file is verified")

    _say("9. The same file without one line")
    lines = bundle.read_text().splitlines(keepends=True)
    bundle.write_text("".join(lines[:-4] + lines[-3:]))
    _expect(subprocess.run(command, cwd=home).returncode == 1, "the verifier says what is missing")


def _verify(home: Path, run_id: str) -> None:
    _say("6. Verify the signature and the chain of every event, straight from the store")
    report = _abeyance(home, "audit", "verify", run_id)
    print(json.dumps(report, indent=2))
    _expect(report["verdict"] == "verified", "every event holds")

    _say("7. Flip one byte of one event in a copy of the store, and verify the copy")
    copy = home / "copy"
    shutil.copytree(home / "data", copy)
    _flip_a_byte(copy / "journal.db", run_id)
    report = _abeyance(home, "audit", "verify", run_id, data=copy, code=1)
    print(json.dumps(report, indent=2))
    named = [finding for finding in report["findings"] if finding["kind"] == "wait-token-completed"]
    _expect(bool(named), "verification names the event that was changed")


def _flip_a_byte(journal: Path, run_id: str) -> None:
    with sqlite3.connect(journal) as store:
        where = "originator_id = ? AND topic = 'wait-token-completed'"
        row = (run_id.replace("-", ""),)
        ((state,),) = store.execute(f"SELECT state FROM journal_events WHERE {where}", row)
        changed = bytearray(state)
        changed[len(changed) // 2] ^= 1
        store.execute(f"UPDATE journal_events SET state = ? WHERE {where}", (bytes(changed), *row))
    store.close()


def _environment(home: Path, data: Path | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ABEYANCE_")}
    return kept | {
        "ABEYANCE_DATA_DIR": str(data or home / "data"),
        "ABEYANCE_PORT": "0",
        "ABEYANCE_LOG_LEVEL": "warning",
        "SHOP_CARRIER_FILE": str(home / "carrier.jsonl"),
    }


@contextmanager
def _server(home: Path) -> Iterator[None]:
    _say("0. Start the server on an empty store: SQLite, one process")
    command = [sys.executable, "-m", "abeyance", "dev", "--no-reload"]
    server = subprocess.Popen(command, cwd=SHOP, env=_environment(home))
    try:
        deadline = time.monotonic() + 30
        while not (home / "data" / "dev.json").exists():
            _expect(server.poll() is None and time.monotonic() < deadline, "the server starts")
            time.sleep(0.05)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _abeyance(
    home: Path,
    *words: str,
    data: Path | None = None,
    code: int = 0,
    show: bool = False,
    quiet: bool = False,
) -> Any:
    command = [sys.executable, "-m", "abeyance", *words]
    done = subprocess.run(
        command,
        cwd=SHOP,
        env=_environment(home, data),
        stdout=None if show else subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
    )
    _expect(
        done.returncode == code, f"abeyance {' '.join(words[:2])} exits with {code}, not {done.returncode}"
    )
    return None if show or quiet else json.loads(done.stdout)


def _until_ended(home: Path, run_id: str) -> Any:
    deadline = time.monotonic() + 20
    while True:
        run = _abeyance(home, "runs", "get", run_id)
        if run["status"] != "running" and run["status"] != "suspended":
            return run
        _expect(time.monotonic() < deadline, "the run ends")
        time.sleep(0.1)


def _say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"demo: this did not hold: {what}")


if __name__ == "__main__":
    main()
