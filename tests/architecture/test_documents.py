"""The check of the documents, and that it finds what it is for."""

from pathlib import Path

import pytest

from scripts import check_docs


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page\n\n## Its `part`, two\n")
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    return tmp_path


class TestDocuments:
    def test_ours_hold_together(self) -> None:
        assert [] == list(check_docs.defects())

    def test_a_sound_set_has_no_defects(self, root: Path) -> None:
        (root / "README.md").write_text("[page](docs/page.md#its-part-two), [web](https://example.org/x)\n")

        assert [] == list(check_docs.defects())

    @pytest.mark.parametrize(
        ("readme", "defect"),
        [
            ("[page](docs/page.md) [x](docs/gone.md)\n", "README.md: the link docs/gone.md leads nowhere"),
            ("[page](docs/page.md#part)\n", "README.md: the link docs/page.md#part names a heading"),
            ("nothing\n", "docs/page.md: no page that the README leads to has a link to it"),
            ("[page](docs/page.md)\n```python\nx = = 1\n```\n", "README.md: a block of Python doesn't parse"),
            ("[page](docs/)\n" + "more\n" * 200, "README.md: 201 lines"),
        ],
    )
    def test_a_defect_is_named_with_its_page(self, root: Path, readme: str, defect: str) -> None:
        (root / "README.md").write_text(readme)

        found = list(check_docs.defects())

        assert [True] == [line.startswith(defect) for line in found]
