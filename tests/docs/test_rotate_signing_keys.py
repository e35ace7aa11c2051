"""`docs/how-to/rotate-signing-keys.md`: its commands exist, and openssl shows the ids that we do."""

import re
import subprocess
from pathlib import Path

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command

from abeyance.bootstrap.keys import make_keys
from abeyance.cli.signing_keys import signing
from tests.support.pages import DOCS

PAGE = (DOCS / "how-to" / "rotate-signing-keys.md").read_text("utf-8")
(OPENSSL,) = (block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "openssl" in block)


class TestPage:
    @pytest.mark.system
    def test_openssl_shows_the_ids_of_the_keys(self, tmp_path: Path) -> None:
        made = make_keys(tmp_path / "keys")

        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", OPENSSL],
            cwd=tmp_path / "keys", capture_output=True, text=True, check=True,
        )  # fmt: skip

        assert [made["event"]["kid"], made["root"]["kid"]] == done.stdout.split()

    def test_it_has_every_command_and_no_other(self) -> None:
        named = set(re.findall(r"abeyance keys signing ([a-z]+)", PAGE))

        commands = get_command(signing)
        assert isinstance(commands, Group)
        assert set(commands.commands) == named
