"""The code in the documents, as the tests execute it.

A fenced block's first word is its language; what follows it says what a test does with the block, and no
reader sees it. `python shipping.py` is a file of that name. `sh` is typed into the reader's terminal,
`sh exits=5` says how it ends, `sh server` keeps a terminal to itself. A `text` or `json` block right after a
command shows what it prints; `…` in it stands for anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=fence)\s*$", re.M | re.S)
_OMITTED = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, its code, and the line of the page it starts at."""

    language: str
    words: tuple[str, ...]
    code: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that this block is, if it is one."""
        return next((word for word in self.words if "." in word and "=" not in word), None)

    @property
    def exits(self) -> int:
        """The exit code of a command, 0 unless the page says otherwise."""
        return next((int(word[6:]) for word in self.words if word.startswith("exits=")), 0)


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in its order."""
    return list(_blocks(page.read_text(encoding="utf-8")))


def _blocks(text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        language, *words = found["info"].split() or [""]
        yield Block(language, tuple(words), found["code"], text.count("\n", 0, found.start()) + 1)


def file_of(page: Path, name: str) -> str:
    """The code of the one block of `page` that is the whole file `name`."""
    (code,) = [block.code for block in blocks(page) if block.words == (name,)]
    return code


def shows(expected: str, printed: str) -> bool:
    """Whether `printed` holds what a page says is printed. Spaces at the ends of lines don't count."""
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    parts = [re.escape(part.strip("\n")) for part in _trimmed(expected).split(_OMITTED)]
    return re.search(r"[\s\S]*?".join(parts), lines) is not None


def _trimmed(expected: str) -> str:
    """A line that is only `…` stands for any number of lines."""
    return re.sub(rf"\n\s*{_OMITTED}\s*\n", _OMITTED, expected)


def tables(page: Path, heading: str) -> list[list[list[str]]]:
    """The tables under a heading of `page`, each as rows of cells, without their heads."""
    text = page.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    found = re.findall(r"(?:^\|[^\n]*\n)+", section, re.M)
    return [[_cells(row) for row in each.splitlines()[2:]] for each in found]


def codes(cell: str) -> list[str]:
    """The words in code marks in a cell: topics, states."""
    return re.findall(r"`([a-z-]+)`", cell)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split(" | ")]
