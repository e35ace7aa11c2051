"""The markers that tie tests to ``tests/cases.txt``."""

from pathlib import Path

import pytest

from scripts.cases import known_cases, markers


class TestCaseList:
    def test_ids_are_sorted_and_listed_once(self) -> None:
        listing = Path(__file__).resolve().parents[1] / "cases.txt"
        ids = [line.partition(" ")[0] for line in listing.read_text(encoding="utf-8").splitlines()]

        assert sorted(set(ids)) == ids


class TestCaseMarkers:
    def test_every_marker_names_a_known_case(self) -> None:
        known = known_cases()

        assert [] == [(place, case) for place, case in markers() if case not in known]

    def test_an_id_that_is_computed_is_refused(self, tmp_path: Path) -> None:
        """An id that can't be searched for as text would be lost to readers and to `make cases`."""
        (tmp_path / "test_one.py").write_text(
            "import pytest\n@pytest.mark.case(f'A{1:02}')\ndef test_it(): ...\n"
        )

        with pytest.raises(ValueError, match=r"test_one\.py:2"):
            list(markers(tmp_path))

    def test_ids_are_found_on_functions_classes_and_parameters(self, tmp_path: Path) -> None:
        (tmp_path / "test_one.py").write_text(
            "import pytest\n"
            "pytestmark = pytest.mark.case('A01')\n"
            "@pytest.mark.case('A03', 'B01')\n"
            "class TestIt:\n"
            "    @pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.case('C01'))])\n"
            "    def test_it(self, x): ...\n"
        )

        assert ["A01", "A03", "B01", "C01"] == sorted(case for _, case in markers(tmp_path))
