"""What every source file keeps to: its size, its docstring, its public names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "scripts", "benchmarks", "examples")
FILE_LINES = 500
FUNCTION_LINES = 60


def sources(*folders: str) -> list[str]:
    found = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(str(path) for path in found)


def parsed(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"), filename=name)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def public_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def reading_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order that ruff's RUF022 keeps."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("name", sources(*FOLDERS))
class TestSourceFile:
    def test_it_is_no_longer_than_one_subject(self, name: str) -> None:
        lines = (ROOT / name).read_text(encoding="utf-8").count("\n")

        assert lines <= FILE_LINES

    def test_it_says_what_it_is(self, name: str) -> None:
        assert ast.get_docstring(parsed(name))


@pytest.mark.parametrize("name", sources("src"))
class TestModule:
    def test_functions_fit_on_a_screen(self, name: str) -> None:
        lengths = {
            function.name: (function.end_lineno or 0) - function.lineno + 1
            for function in functions(parsed(name))
        }

        assert {} == {function: length for function, length in lengths.items() if length > FUNCTION_LINES}

    def test_public_names_are_sorted_and_named_once(self, name: str) -> None:
        names = public_names(parsed(name)) or []

        assert sorted(set(names), key=reading_order) == names
