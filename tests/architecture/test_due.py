"""One function decides when a run must be looked at next; whoever writes `due` besides is listed here."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "abeyance"


def calls_of(name: str, keyword: str = "") -> Iterator[str]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            if keyword and all(each.arg != keyword for each in node.keywords):
                continue
            called = node.func
            if getattr(called, "attr", None) == name or getattr(called, "id", None) == name:
                yield file.relative_to(SOURCE).as_posix()


class TestDue:
    def test_due_is_decided_in_three_places_by_one_function(self) -> None:
        """A batch's append, the append of an answer from rows, and a lease that is given back."""
        assert {"journal/batch.py", "engine/answer_append.py", "engine/executor.py"} == set(
            calls_of("due_of")
        )

    def test_a_lease_is_released_in_four_places(self) -> None:
        """By who held it, with `due_of`; by who found that it can't go on with a run, for later; by who keeps
        one parked; and by who claimed it while it stopped, for now."""
        assert {
            "engine/executor.py", "engine/parking.py", "engine/crash_loops.py", "engine/agenda.py",
        } == set(calls_of("release", "seen_version"))  # fmt: skip

    def test_runs_are_offered_in_two_places(self) -> None:
        """At a start, to new code; and when somebody asks for a retry."""
        stores = {"journal/sqlite/store.py"}
        assert {"engine/agenda.py", "engine/crash_loops.py"} == set(calls_of("offer")) - stores
