"""Whether the documents hold together: ``python -m scripts.check_docs`` (part of ``make check``).

1. Every relative link leads to a file, and to a heading of it where it names one.
2. Every page under ``docs/`` can be reached by links from README.md; a link to a folder reaches its pages.
3. Python in a fenced block parses.
4. README.md fits on one screen.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README_LINES = 110

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)\s*$", re.M | re.S)
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.M)
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    """Every document: those at the root and all of ``docs/``."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield ``(link, file, anchor)`` for the links that stay in this repository."""
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z][a-z0-9+.-]*:", link):
            target, _, anchor = link.partition("#")
            yield link, (page.parent / target).resolve() if target else page, anchor


def anchors(page: Path) -> set[str]:
    """Name the page's headings as GitHub does: lower case, no punctuation, hyphens for spaces."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        repeated = sum(
            name == slug or re.fullmatch(re.escape(slug) + r"-\d+", name) is not None for name in found
        )
        found.add(f"{slug}-{repeated}" if repeated else slug)
    return found


def broken_links(page: Path) -> Iterator[str]:
    """Yield what is wrong with the links of one page."""
    for link, target, anchor in links(page):
        if not target.exists():
            yield f"the link {link} leads nowhere"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"the link {link} names a heading that isn't there"


def broken_code(page: Path) -> Iterator[str]:
    """Yield the fenced Python that doesn't parse."""
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        if block["language"] == "python":
            try:
                ast.parse(textwrap.dedent(block["code"]))
            except SyntaxError as error:
                yield f"a block of Python doesn't parse: {error.msg} in {error.text!r}"


def unreachable() -> Iterator[str]:
    """Yield the pages of ``docs/`` that no chain of links from the README reaches."""
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page.is_dir():
            waiting += page.glob("*.md")
        elif page.suffix == ".md" and page.is_file() and page not in reached:
            reached.add(page)
            waiting += [target for _, target, _ in links(page)]
    for page in pages():
        if page not in reached and page.is_relative_to(ROOT / "docs"):
            yield f"{page.relative_to(ROOT)}: no page that the README leads to has a link to it"


def defects() -> Iterator[str]:
    """Yield everything that is wrong, each with its page."""
    for page in pages():
        for defect in (*broken_links(page), *broken_code(page)):
            yield f"{page.relative_to(ROOT)}: {defect}"
    yield from unreachable()
    lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > README_LINES:
        yield f"README.md: {lines} lines, and {README_LINES} is one screen"


def main() -> int:
    """Print the defects; 1 if there is any."""
    found = list(defects())
    for defect in found:
        print(defect, file=sys.stderr)
    print(f"{len(pages())} documents, {len(found)} defects")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
