"""`abeyance doctor` at the command line: a line a thing, or JSON; 1 if anything is wrong."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

PACK = """
from pydantic import BaseModel
from abeyance import tool
print("hello from the pack")
class Given(BaseModel): ...
@tool(id="doctor.note")
def note(given: Given) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pack prints something."""
    (tmp_path / "pyproject.toml").write_text('[tool.abeyance]\npack = "doctors_pack"\n')
    (tmp_path / "doctors_pack.py").write_text(PACK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestDoctor:
    def test_a_sound_project_is_told_line_by_line(self, command: Command, folder: Path) -> None:
        outcome = command("doctor")

        assert 0 == outcome.code
        assert {"ok", "note", "unseen"} == {line.split()[0] for line in outcome.out.splitlines()}
        assert "1 tools, 0 flows, 0 scripts from doctors_pack" in outcome.out
        assert {"pyproject.toml", "doctors_pack.py"} == {file.name for file in folder.iterdir()}

    def test_json_is_json_whatever_the_pack_prints(self, command: Command, folder: Path) -> None:
        outcome = command("doctor", "--json")

        told = json.loads(outcome.out)
        assert (0, 0) == (outcome.code, told["wrong"])
        assert {"check", "state", "says"} <= set(told["checks"][0])

    def test_something_wrong_is_1_and_says_what_to_do(
        self, command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_API_KEY", "geheim-" * 4)
        monkeypatch.setenv("ABEYANCE_ORIGN", "shop.example")

        outcome = command("doctor", "--for=serve")

        assert 1 == outcome.code
        assert "WRONG   settings" in outcome.out
        assert "abeyance keys make DIR" in outcome.out
        assert "ABEYANCE_ORIGN is no setting and does nothing: is ABEYANCE_ORIGIN meant?" in outcome.out
        assert "geheim" not in outcome.out + outcome.err

    def test_a_setting_that_breaks_its_rule_is_told(
        self, command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ABEYANCE_PORT", "web")

        outcome = command("doctor", "--json")

        told = json.loads(outcome.out)
        assert (1, 1) == (outcome.code, told["wrong"])
        assert "ABEYANCE_PORT" in next(line["says"] for line in told["checks"] if line["state"] == "wrong")
