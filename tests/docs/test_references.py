"""Pages that comments and messages name: a reader of the source has them."""

import re
from pathlib import Path

from tests.support.pages import ROOT

FOLDERS = ("src", "tests", "scripts", "examples", "benchmarks")
PAGE = re.compile(r"(?<!tests/)\bdocs/[a-z-]+(?:/[\w-]+)*(?:\.md)?")
# Its pages are made up, in folders of their own.
MADE_UP = ROOT / "tests" / "architecture" / "test_documents.py"


def sources() -> list[Path]:
    """Every file of code."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()]
    return [
        file
        for file in files
        if file.suffix in (".py", ".sql", ".toml") and file not in (MADE_UP, Path(__file__))
    ]


def is_there(page: str) -> bool:
    """Whether the page is there; `docs/adr/0004` is enough of a decision's name."""
    return (ROOT / page).exists() or any((ROOT / page).parent.glob(f"{Path(page).name}-*.md"))


class TestReferences:
    def test_lead_to_pages_that_are_there(self) -> None:
        named = {(file, page) for file in sources() for page in PAGE.findall(file.read_text())}

        assert [] == [(str(file.relative_to(ROOT)), page) for file, page in named if not is_there(page)]
        assert len(named) > 10
