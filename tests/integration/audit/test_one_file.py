"""The verifier as one file: it runs apart from abeyance, and finds what the package finds."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from abeyance import __version__
from abeyance.verifier.assembling import assemble
from tests.support.bundles import ROOT_KEY, export, lines_of, resealed


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("auditor") / "abeyance-verify.py"
    file.write_text(assemble(__version__), "utf-8")
    return file


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export(tmp_path_factory.mktemp("log"), runs=3)[0]


def run(program: Path, bundle: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = program.with_name("log.abeyance.jsonl")
    file.write_bytes(bundle)
    isolated = [sys.executable, "-I", str(program), str(file), *arguments]
    return subprocess.run(isolated, capture_output=True, text=True, check=False, cwd=program.parent)


class TestOneFile:
    def test_it_imports_only_python_and_cryptography(self, program: Path) -> None:
        tree = ast.parse(program.read_text("utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {
            each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
        }

        foreign = {name.split(".")[0] for name in imported} - sys.stdlib_module_names

        assert {"cryptography"} == foreign

    def test_no_name_is_defined_twice(self, program: Path) -> None:
        names = [name for node in ast.parse(program.read_text("utf-8")).body for name in _defined(node)]

        assert len(names) == len(set(names))

    @pytest.mark.parametrize("arguments", [(), ("--jobs", "2"), ("--fast",)])
    def test_it_verifies_a_bundle(self, program: Path, bundle: bytes, arguments: tuple[str, ...]) -> None:
        done = run(program, bundle, "--root-key", ROOT_KEY, *arguments)

        assert (0, "", "VERIFIED") == (done.returncode, done.stderr, done.stdout.split(":")[0])

    def test_it_finds_what_the_package_finds(self, program: Path, bundle: bytes) -> None:
        lines = lines_of(bundle)
        wrong = resealed([*lines[:9], *lines[10:]])
        file = program.with_name("wrong.jsonl")
        file.write_bytes(wrong)
        package = [
            sys.executable,
            "-m",
            "abeyance.verifier.command",
            str(file),
            "--root-key",
            ROOT_KEY,
            "--json",
        ]

        theirs = run(program, wrong, "--root-key", ROOT_KEY, "--json")
        ours = subprocess.run(package, capture_output=True, text=True, check=False)

        assert (1, 1) == (theirs.returncode, ours.returncode)
        assert json.loads(ours.stdout) == json.loads(theirs.stdout)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return []
