"""The process around a command: exit codes, pipes, interrupts, how fast it starts."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from abeyance import __version__
from tests.unit.cli.conftest import Command
from tests.unit.cli.fake_api import RUN_ID, FakeApi, a_run

SOURCE = str(Path(__file__).resolve().parents[3] / "src")
ABEYANCE = [sys.executable, "-m", "abeyance"]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (SOURCE, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **more}


class TestVersion:
    def test_it_is_printed(self, command: Command) -> None:
        outcome = command("--version")

        assert (0, f"abeyance {__version__}\n") == (outcome.code, outcome.out)

    def test_nothing_slow_is_imported_for_it(self) -> None:
        """Imports are what the start takes; httpx and pydantic-settings alone are a quarter of a second."""
        trace = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "abeyance", "--version"],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        imported = {line.rpartition("|")[2].strip() for line in trace.splitlines()}

        assert imported.isdisjoint(
            {"httpx", "pydantic_settings", "falcon", "psycopg", "cryptography", "eventsourcing", "asyncio"}
        )

    def test_it_takes_less_than_a_quarter_of_a_second(self) -> None:
        """Measured as processor time, the best of three: other work on the machine doesn't count."""
        best = 60.0
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([*ABEYANCE, "--version"], env=environment(), capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

        assert best < 0.25


class TestHelp:
    def test_a_group_without_a_command_shows_its_commands(self, command: Command) -> None:
        outcome = command("runs")

        assert 2 == outcome.code
        assert re.search(r"^  resume +Say what a run waits for", outcome.err, re.M)

    def test_an_unknown_command_is_a_mistake_in_use(self, command: Command) -> None:
        outcome = command("rnus")

        assert 2 == outcome.code
        assert outcome.err.startswith("error[usage]: No such command 'rnus'. Did you mean 'runs'?")


class TestPipes:
    @pytest.mark.parametrize(
        "arguments", [["runs", "get", RUN_ID], ["runs", "journal", RUN_ID, "--table"], ["--help"]]
    )
    def test_a_reader_that_has_gone_is_141_and_no_traceback(self, api: FakeApi, arguments: list[str]) -> None:
        api.answer(f"GET /v1/runs/{RUN_ID}", a_run())
        event = {"sequence": 1, "kind": "started", "timestamp": "2026-10-24T17:30:12.000Z"}
        api.answer(f"GET /v1/runs/{RUN_ID}/journal", {"data": [event], "hasMore": False})
        reading, writing = os.pipe()
        os.close(reading)

        done = subprocess.run(
            [*ABEYANCE, *arguments],
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(writing)

        assert (141, b"") == (done.returncode, done.stderr)

    def test_an_output_that_is_not_utf_8_gets_json_all_the_same(self, api: FakeApi) -> None:
        api.answer(f"GET /v1/runs/{RUN_ID}", a_run(output={"name": "é€😀"}))

        done = subprocess.run(
            [*ABEYANCE, "runs", "get", RUN_ID],
            env=environment(PYTHONIOENCODING="ascii"),
            capture_output=True,
            check=True,
        )

        assert rb'"name": "\u00e9\u20ac\ud83d\ude00"' in done.stdout


class TestInterrupt:
    def test_a_start_that_is_interrupted_is_130(self, api: FakeApi) -> None:
        api.answer("POST /v1/runs", a_run("running"), 202)
        api.answer(f"GET /v1/runs/{RUN_ID}", a_run("running"))
        process = subprocess.Popen(
            [*ABEYANCE, "runs", "start", "--flow=shop.ship-order"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not any(request.method == "GET" for request in api.asked):
            assert process.poll() is None
            time.sleep(0.01)

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

        assert (130, "") == (process.returncode, out)
        assert f"Interrupted. Run {RUN_ID} goes on: abeyance runs get {RUN_ID}\n" == err
