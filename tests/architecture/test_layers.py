"""The directions of imports, and the names that must not stand in the way of the standard library's."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "abeyance"


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


class TestLayers:
    def test_imports_point_downwards_and_the_domain_is_pure(self) -> None:
        lint = subprocess.run(
            [
                sys.executable,
                "-c",
                "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])",
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )

        assert 0 == lint.returncode, lint.stdout + lint.stderr

    def test_only_postgres_modules_and_bootstrap_import_psycopg(self) -> None:
        allowed = {"bootstrap", "postgres"}
        offenders = [
            str(path.relative_to(ROOT))
            for path in PACKAGE.rglob("*.py")
            if not any(
                part.startswith(tuple(allowed)) for part in path.relative_to(PACKAGE).with_suffix("").parts
            )
            and any(name.partition(".")[0] in {"psycopg", "psycopg_pool"} for name in imported_names(path))
        ]

        assert [] == offenders

    def test_every_sub_package_has_an_init(self) -> None:
        """Without one a folder is a namespace package, which import-linter doesn't see."""
        folders = {path.parent for path in PACKAGE.rglob("*.py")}

        assert [] == [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()]


class TestStandardLibraryNames:
    def test_what_we_install_shadows_nothing(self) -> None:
        installed = {path.name.partition(".")[0] for path in (ROOT / "src").iterdir()}

        assert {"abeyance"} == installed
        assert not installed & sys.stdlib_module_names

    def test_no_folder_at_the_root_shadows_anything(self) -> None:
        """``python -m``, pytest and gunicorn put the checkout on the path, before the standard library."""
        importable = {path.stem for path in ROOT.iterdir() if path.is_dir() or path.suffix == ".py"}

        assert not importable & sys.stdlib_module_names

    @pytest.mark.parametrize("name", ["http", "abeyance"])
    def test_no_test_folder_takes_a_package_s_name(self, name: str) -> None:
        """A test folder called ``http`` stops the collection once it holds an ``__init__.py``."""
        assert [] == [path for path in (ROOT / "tests").rglob(name) if path.is_dir()]

    def test_no_test_folder_is_a_package(self) -> None:
        assert [] == list((ROOT / "tests").rglob("__init__.py"))
