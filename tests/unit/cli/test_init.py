"""`abeyance init`: what it writes, what it refuses, and that `examples/shop` is the same."""

import json
import os
import runpy
import tomllib
from pathlib import Path

import pytest

from abeyance.cli.starting import project_files
from scripts import example_shop
from tests.unit.cli.conftest import Command

FILES = {"pyproject.toml", "my_orders.py", "tests/test_my_orders.py", "README.md", ".gitignore"}


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir()}


class TestInit:
    def test_makes_a_folder_with_a_pack_of_its_name(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        outcome = command("init", "My Orders")

        folder = tmp_path / "My Orders"
        assert (0, FILES) == (outcome.code, files_in(folder))
        assert {"folder": str(folder), "pack": "my_orders"}.items() <= json.loads(outcome.out).items()
        tables = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]
        assert {"pack": "my_orders"} == tables["abeyance"]
        assert "cd My Orders" in outcome.err
        assert "MY_ORDERS_CARRIER_FILE=carrier.jsonl abeyance dev" in outcome.err
        assert "abeyance runs start --flow=my_orders.ship-order" in outcome.err
        assert "my_orders.ship-order" == runpy.run_path(str(folder / "my_orders.py"))["ship_order"].id

    def test_makes_it_in_the_folder_that_one_is_in(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".git").mkdir()
        monkeypatch.chdir(tmp_path)

        outcome = command("init", "--name=my_orders")

        assert (0, FILES) == (outcome.code, files_in(tmp_path))
        assert "  cd " not in outcome.err

    @pytest.mark.parametrize("there", sorted(FILES))
    def test_replaces_nothing_and_then_writes_nothing(
        self, command: Command, tmp_path: Path, there: str
    ) -> None:
        (tmp_path / there).parent.mkdir(exist_ok=True)
        (tmp_path / there).write_text("mine")

        outcome = command("init", str(tmp_path), "--name=my_orders")

        assert (1, "") == (outcome.code, outcome.out)
        assert f"has {there} already; no file is replaced" in outcome.err
        assert ({there}, "mine") == (files_in(tmp_path), (tmp_path / there).read_text())

    def test_writes_through_no_link(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "README.md").symlink_to(tmp_path.parent / "elsewhere")

        assert 1 == command("init", str(tmp_path), "--name=my_orders").code

        assert {"README.md"} == files_in(tmp_path)

    def test_what_was_begun_is_taken_back(self, command: Command, tmp_path: Path) -> None:
        """Here a file stands where the folder of the tests would be."""
        (tmp_path / "tests").write_text("mine")

        outcome = command("init", str(tmp_path), "--name=my_orders")

        assert (1, {"tests"}) == (outcome.code, files_in(tmp_path))
        assert "can't be written" in outcome.err

    @pytest.mark.parametrize("name", ["json", "pydantic", "tests", "A", "7up", "a-b", "", "a" * 61])
    def test_a_name_that_would_not_work_is_refused(self, command: Command, tmp_path: Path, name: str) -> None:
        outcome = command("init", str(tmp_path / "new"), f"--name={name}")

        assert 2 == outcome.code
        assert "--name" in outcome.err
        assert [] == os.listdir(tmp_path)


class TestExample:
    def test_the_shop_is_what_is_written_for_a_shop(self) -> None:
        """If this fails: change `src/abeyance/cli/template/`, then `python -m scripts.example_shop`."""
        texts = project_files("shop")

        assert texts == {path: (example_shop.FOLDER / path).read_text("utf-8") for path in texts}
