"""`docs/reference/cli.md` says what `--help` says."""

import pytest

from scripts import cli_reference

PAGE = cli_reference.PAGE.read_text(encoding="utf-8")


class TestReference:
    def test_the_page_is_what_the_commands_say(self) -> None:
        """If this fails: `python -m scripts.cli_reference`."""
        assert cli_reference.page() == PAGE

    @pytest.mark.parametrize(
        "command",
        [
            "init",
            "doctor",
            "dev",
            "serve",
            "worker",
            "runs start",
            "runs get",
            "runs list",
            "runs resume",
            "runs cancel",
            "runs journal",
            "audit log",
            "audit verify",
            "projections rebuild",
            "projections check",
            "db migrate",
            "keys make",
        ],
    )
    def test_each_command_has_its_section(self, command: str) -> None:
        assert f"## abeyance {command}\n\n```text\nUsage: abeyance {command} " in PAGE
