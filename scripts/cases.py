"""Which cases of ``tests/cases.txt`` no test covers: ``python -m scripts.cases`` (``make cases``).

A case is an input or a fault that broke a system like this one. A test that covers some carries their ids:
``@pytest.mark.case("A01", "A03")``. The markers are read from the sources, so nothing is imported or run.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"


def known_cases(listing: Path = TESTS / "cases.txt") -> dict[str, str]:
    """Read the list: one case a line, its id and a short title."""
    lines = listing.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if line)


def markers(folder: Path = TESTS) -> Iterator[tuple[str, str]]:
    """Yield ``(file:line, id)`` for every id that a ``pytest.mark.case`` names."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.case":
                place = f"{path.relative_to(folder.parent)}:{node.lineno}"
                for argument in node.args:
                    yield place, _literal(argument, place)


def _literal(argument: ast.expr, place: str) -> str:
    """Return the id, which must be written out so that this program and a reader can find it."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    raise ValueError(f"{place}: write the case's id as a plain string, not {ast.unparse(argument)}")


def main() -> int:
    """Print the cases without a test, one a line; the count goes to stderr."""
    known = known_cases()
    covered = {case for _, case in markers()}
    for case, title in known.items():
        if case not in covered:
            print(f"{case} {title}")
    print(f"{len(covered & known.keys())} of {len(known)} cases have a test", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
