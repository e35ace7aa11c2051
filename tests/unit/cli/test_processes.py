"""`dev`, `serve`, `worker` and the store's commands: what they pass on, and how they refuse to start."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from abeyance.cli import main
from abeyance.client.discovery import find_server
from abeyance.settings import Settings
from tests.unit.cli.conftest import Command

KEYS = {"ABEYANCE_KEY_DIR": "keys", "ABEYANCE_API_KEY": "k" * 32}

MIGRATED: dict[str, object] = {
    "applied": [{"tables": "journal", "from": 0, "to": 3}],
    "versions": {"journal": 3},
}


class FakeBootstrap(ModuleType):
    """Stands in for `abeyance.bootstrap`: writes down what it was called with."""

    def __init__(self) -> None:
        super().__init__("abeyance.bootstrap")
        self.calls: list[tuple[Any, ...]] = []
        self.verdict = "verified"
        self.drift: list[str] = []

    def run_dev(
        self, settings: Settings, *, reload: bool, announce: Callable[[str, str | None], None]
    ) -> None:
        announce("http://127.0.0.1:8420", "t" * 32)
        self.calls.append(("dev", settings, reload, find_server(None, None, {})))

    def run_server(self, settings: Settings) -> None:
        self.calls.append(("serve", settings))

    def run_worker(self, settings: Settings) -> None:
        self.calls.append(("worker", settings))

    def verify_run(self, settings: Settings, run: str) -> dict[str, object]:
        return {"verdict": self.verdict, "runId": run, "findings": []}

    def check_projections(self, settings: Settings) -> dict[str, object]:
        return {"drift": self.drift}

    def rebuild_projection(self, settings: Settings, name: str) -> dict[str, object]:
        return {"name": name, "position": 7}

    def migrate_store(self, settings: Settings) -> dict[str, object]:
        return MIGRATED

    def make_keys(self, folder: Path) -> dict[str, object]:
        return {"folder": folder}


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBootstrap:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABEYANCE_PACK", "shop")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    fake = FakeBootstrap()
    monkeypatch.setitem(sys.modules, "abeyance.bootstrap", fake)
    return fake


class TestStarting:
    @pytest.mark.parametrize("kind", ["dev", "serve", "worker"])
    def test_without_a_pack_nothing_is_made_or_announced(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        for name, value in (KEYS | {"ABEYANCE_PUBLIC_URL": "https://runs.example.com"}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("ABEYANCE_PACK")

        outcome = command(kind)

        assert (1, "", []) == (outcome.code, outcome.out, bootstrap.calls)
        assert "error[configuration-error]: no pack is named" in outcome.err
        assert "abeyance init" in outcome.err
        assert [] == os.listdir()


class TestDev:
    def test_the_client_finds_it_as_long_as_it_runs(
        self, bootstrap: FakeBootstrap, command: Command, tmp_path: Path
    ) -> None:
        outcome = command("dev", "--pack=shop", "--port=0", "--db=sqlite:///runs.db", "--no-reload")

        [(_, settings, reload, found)] = bootstrap.calls
        assert (0, "", False) == (outcome.code, outcome.out, reload)
        assert ("shop", 0, tmp_path / "runs.db") == (settings.pack, settings.port, settings.journal_file)
        assert ("http://127.0.0.1:8420", "t" * 32) == (found.url, found.token)
        assert "http://127.0.0.1:8420" in outcome.err
        assert "t" * 32 not in outcome.err
        assert not (tmp_path / ".abeyance" / "dev.json").exists()

    def test_the_file_goes_however_it_ends(
        self, bootstrap: FakeBootstrap, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(_: Settings, *, reload: bool, announce: Callable[[str, str | None], None]) -> None:
            announce("http://127.0.0.1:8420", None)
            raise KeyboardInterrupt

        monkeypatch.setattr(bootstrap, "run_dev", interrupted)

        assert 130 == command("dev").code
        assert [".gitignore"] == [path.name for path in (tmp_path / ".abeyance").iterdir()]

    def test_its_folder_is_private_and_not_for_git(
        self, bootstrap: FakeBootstrap, command: Command, tmp_path: Path
    ) -> None:
        command("dev")

        folder = tmp_path / ".abeyance"
        assert (0o700, "*\n") == (folder.stat().st_mode & 0o777, (folder / ".gitignore").read_text())

    def test_a_folder_that_is_there_stays_as_it_is(
        self, bootstrap: FakeBootstrap, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_DATA_DIR", str(tmp_path))

        command("dev")

        assert not (tmp_path / ".gitignore").exists()


class TestServerThatGivesUp:
    def test_its_own_exit_codes_are_1(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bootstrap, "run_dev", lambda *_, **__: sys.exit(3))

        assert 1 == command("dev").code

    def test_a_stop_that_was_asked_for_is_fine(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bootstrap, "run_dev", lambda *_, **__: sys.exit())

        assert 0 == command("dev").code

    def test_in_a_process_that_it_forks_they_stay(
        self, bootstrap: FakeBootstrap, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The parent tells by 3 that a process can't start, and would start another for ever."""

        def fork(*_: object, **__: object) -> None:
            if (child := os.fork()) == 0:
                sys.exit(3)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        statuses: list[int] = []
        monkeypatch.setattr(bootstrap, "run_dev", fork)
        parent = os.getpid()

        code = main(["dev"])

        if os.getpid() != parent:
            os._exit(code)
        assert ([3], 0) == (statuses, code)


class TestServe:
    def test_flags_go_before_variables(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (KEYS | {"ABEYANCE_WORKERS": "3", "ABEYANCE_PORT": "9000"}).items():
            monkeypatch.setenv(name, value)

        command("serve", "--workers=2", "--no-execute", "--db=postgresql://db/runs", "--host=0.0.0.0")

        [(_, settings)] = bootstrap.calls
        assert (2, False, 9000, "0.0.0.0") == (
            settings.workers,
            settings.execute,
            settings.port,
            settings.host,
        )

    @pytest.mark.parametrize("missing", sorted(KEYS))
    def test_it_does_not_start_without_what_it_needs(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch, missing: str
    ) -> None:
        for name in KEYS.keys() - {missing}:
            monkeypatch.setenv(name, KEYS[name])

        outcome = command("serve")

        assert (1, []) == (outcome.code, bootstrap.calls)
        assert outcome.err.startswith(f"error[configuration-error]: {missing} is not set")

    def test_a_bad_value_stops_the_start_and_names_the_variable(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_API_KEY", "hunter2")

        outcome = command("serve")

        assert (1, []) == (outcome.code, bootstrap.calls)
        assert outcome.err.startswith("error[configuration-error]: ABEYANCE_API_KEY: must be 16 to 512")
        assert "hunter2" not in outcome.err

    def test_a_variable_that_is_no_setting_is_told(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_PUBLC_URL", "https://runs.example.com")

        assert "ABEYANCE_PUBLC_URL is no setting and does nothing; is ABEYANCE_PUBLIC_URL meant?" in (
            command("serve").err
        )


class TestWorker:
    def test_it_does_not_start_without_a_public_url(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_KEY_DIR", "keys")

        outcome = command("worker")

        assert (1, []) == (outcome.code, bootstrap.calls)
        assert outcome.err.startswith("error[configuration-error]: ABEYANCE_PUBLIC_URL is not set")

    def test_it_needs_no_api_key(
        self, bootstrap: FakeBootstrap, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_KEY_DIR", "keys")
        monkeypatch.setenv("ABEYANCE_PUBLIC_URL", "https://runs.example.com/a/")

        assert 0 == command("worker").code
        assert "https://runs.example.com/a" == bootstrap.calls[0][1].public_url


class TestStoreCommands:
    @pytest.mark.parametrize(("verdict", "code"), [("verified", 0), ("tampered", 1), ("unusable", 2)])
    def test_verify_exits_as_its_verdict_says(
        self, bootstrap: FakeBootstrap, command: Command, verdict: str, code: int
    ) -> None:
        bootstrap.verdict = verdict

        outcome = command("audit", "verify", "019bfb40-0000-7000-8000-000000000001")

        assert (code, verdict) == (outcome.code, json.loads(outcome.out)["verdict"])

    @pytest.mark.parametrize(("drift", "code"), [([], 0), (["runs: row run-1"], 1)])
    def test_check_exits_with_1_on_drift(
        self, bootstrap: FakeBootstrap, command: Command, drift: list[str], code: int
    ) -> None:
        bootstrap.drift = drift

        outcome = command("projections", "check")

        assert (code, {"drift": drift}) == (outcome.code, json.loads(outcome.out))

    @pytest.mark.parametrize(
        ("arguments", "printed"),
        [
            (("projections", "rebuild", "runs"), {"name": "runs", "position": 7}),
            (("db", "migrate"), MIGRATED),
            (("keys", "make", "secrets"), {"folder": "secrets"}),
        ],
    )
    def test_the_others_print_what_was_done(
        self,
        bootstrap: FakeBootstrap,
        command: Command,
        arguments: tuple[str, ...],
        printed: dict[str, object],
    ) -> None:
        outcome = command(*arguments)

        assert (0, printed) == (outcome.code, json.loads(outcome.out))
