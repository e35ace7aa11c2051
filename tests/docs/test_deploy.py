"""What `deploy/` names exists: variables, commands, files; and it is as closed as it says."""

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from abeyance.cli.app import app
from abeyance.cli.starting import project_files
from abeyance.settings.model import CLIENT_VARIABLES, Settings, variable_of
from tests.support.pages import ROOT

DEPLOY = ROOT / "deploy"
UNITS = ("abeyance.service", "abeyance-worker@.service")
PAGES = (
    DEPLOY / "README.md",
    ROOT / "docs" / "how-to" / "upgrade.md",
    ROOT / "docs" / "how-to" / "operate-a-server.md",
)
KNOWN = {variable_of(field) for field in Settings.model_fields} | set(CLIENT_VARIABLES)


def commands(text: str) -> Iterator[list[str]]:
    """Every command line of `abeyance` in the blocks of a page or the lines of a file, as words."""
    for line in text.splitlines():
        found = re.match(r"\s*(?:\$ )?(?:ExecStart=\S*/)?abeyance (\S.*)", line)
        if found:
            yield shlex.split(found[1], comments=True)


def complaint(words: list[str]) -> str | None:
    """Why the command line can't be a command or a group of them, if it can't: an unknown word or option."""
    command: Any = get_command(app)
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        return f"no command: {words[:1]}" if words or command is get_command(app) else None
    options = {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in options]
    return f"unknown: {unknown}" if unknown else None


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a unit's service, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        if line and not line.startswith("#"):
            setting, _, value = line.partition("=")
            found.setdefault(setting, []).append(value)
    return found


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, with their continuation lines joined."""
    text = "\n".join(
        line for line in (DEPLOY / "Containerfile").read_text().splitlines() if not line.startswith("#")
    )
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


class TestNames:
    @pytest.mark.parametrize("file", sorted(DEPLOY.iterdir()), ids=lambda file: file.name)
    def test_every_variable_is_a_setting(self, file: Path) -> None:
        named = set(re.findall(r"ABEYANCE_[A-Z_]+", file.read_text()))

        assert named <= KNOWN

    @pytest.mark.parametrize("file", [*PAGES, *(DEPLOY / name for name in UNITS)], ids=lambda file: file.name)
    def test_every_command_and_its_options_exist(self, file: Path) -> None:
        found = list(commands(file.read_text()))

        assert found
        assert [] == [reason for words in found if (reason := complaint(words))]

    @pytest.mark.parametrize(
        "file",
        [ROOT / "README.md", *PAGES[:1], *sorted((ROOT / "docs").rglob("*.md"))],
        ids=lambda file: file.name,
    )
    def test_every_command_in_a_sentence_exists(self, file: Path) -> None:
        found = [
            words for words in re.findall(r"`abeyance ([a-z][^`]*)`", file.read_text()) if "…" not in words
        ]

        assert [] == [reason for words in found if (reason := complaint(shlex.split(words)))]

    def test_the_example_of_the_variables_keeps_every_rule(self) -> None:
        """Filled in, and with what is commented out, too."""
        lines = re.findall(r"^#?(ABEYANCE_\w+)=(.*)$", (DEPLOY / "abeyance.env").read_text(), re.M)
        given = dict(lines) | {"ABEYANCE_API_KEY": "k" * 32}

        Settings.load(given).check_for("serve")
        Settings.load(given).check_for("worker")


class TestUnits:
    @pytest.mark.parametrize("name", UNITS)
    def test_it_may_do_little(self, name: str) -> None:
        service = unit(name)

        assert "abeyance" == service["User"][0]
        assert [""] == service["CapabilityBoundingSet"]
        assert ["strict"] == service["ProtectSystem"]
        for setting in (
            "NoNewPrivileges",
            "ProtectHome",
            "PrivateTmp",
            "PrivateDevices",
            "RestrictNamespaces",
        ):
            assert ["yes"] == service[setting]
        assert {"AF_UNIX", "AF_INET", "AF_INET6"} == set(service["RestrictAddressFamilies"][0].split())

    @pytest.mark.parametrize("name", UNITS)
    def test_it_may_write_where_its_store_is_and_waits_for_the_drain(self, name: str) -> None:
        service = unit(name)
        variables = dict(line.split("=", 1) for line in service["Environment"])

        assert f"/var/lib/{service['StateDirectory'][0]}" == variables["ABEYANCE_DATA_DIR"]
        assert int(service["TimeoutStopSec"][0]) > Settings.model_fields["drain_s"].default + 5

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
    @pytest.mark.parametrize("name", UNITS)
    def test_systemd_takes_it_and_finds_it_closed(self, name: str, tmp_path: Path) -> None:
        """Exposure is from 0 to 10; services with nothing set have 9.6."""
        command = tmp_path / "abeyance"
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)
        text = (DEPLOY / name).read_text().replace("/opt/shop/.venv/bin/abeyance", str(command))
        file = tmp_path / name
        file.write_text(text.replace("/opt/shop", str(tmp_path)))

        for arguments in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=20"]):
            done = subprocess.run(
                ["systemd-analyze", *arguments, str(file)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr


class TestContainer:
    def test_it_is_no_root_s_and_slim_and_ends_in_time(self) -> None:
        found = instructions()
        words = dict(found)

        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", words["USER"])
        assert all("slim" in rest for word, rest in found if word == "FROM")
        assert "SIGTERM" == words["STOPSIGNAL"]
        last_user = [word for word, _ in found].index("USER")
        assert {"EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"} == {
            word for word, _ in found[last_user + 1 :]
        }

    def test_it_copies_what_a_new_project_has(self) -> None:
        """`abeyance init` writes these files; the wheel's folder is made by the README's command."""
        copied = {
            source
            for word, rest in instructions()
            if word == "COPY" and not rest.startswith("--from")
            for source in rest.split()[:-1]
        }

        assert {"pyproject.toml", "*.py", "dist/"} == copied
        assert {"pyproject.toml", "shop.py"} <= project_files("shop").keys()
        assert "pip wheel --wheel-dir dist" in (DEPLOY / "README.md").read_text()

    def test_its_command_and_variables_work(self) -> None:
        words = dict(instructions())
        variables = dict(re.findall(r"(ABEYANCE_\w+)=(\S+)", words["ENV"]))
        entry, command = (re.findall(r'"([^"]+)"', words[word]) for word in ("ENTRYPOINT", "CMD"))

        assert ["abeyance", "serve"] == entry + command
        assert None is complaint(list(command))
        assert variables["ABEYANCE_DATA_DIR"] == words["VOLUME"]
        assert variables["ABEYANCE_PORT"] == words["EXPOSE"]
        assert "0.0.0.0" == Settings.load(variables).host

    @pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
    def test_its_health_check_tells_a_sound_process_from_another(self, status: int, code: int) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status if self.path == "/health" else 404)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        check = dict(instructions())["HEALTHCHECK"].partition("CMD ")[2]
        _, flag, source = json.loads(check)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            done = subprocess.run(
                [sys.executable, flag, source],
                env={**os.environ, "ABEYANCE_PORT": str(server.server_port)},
                capture_output=True,
                check=False,
            )
            server.shutdown()
            thread.join()

        assert code == done.returncode, done.stderr
