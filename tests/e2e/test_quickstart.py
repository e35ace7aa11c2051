"""`docs/quickstart.md`, done as it says: in a new folder, with the wheel that pip builds and installs.

Each command is typed as it stands there, and must print what stands there. See `tests/support/pages.py` for
the words that the test reads.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import DOCS, ROOT, Block, blocks, shows
from tests.support.project import Project, Server, answers, borrow_dependencies, project, wait_until

PAGE = DOCS / "quickstart.md"
ACTIVATE = "[ ! -f .venv/bin/activate ] || . .venv/bin/activate\n"

pytestmark = pytest.mark.slow


class Reader:
    """Somebody who follows the page."""

    def __init__(self, project: Project, port: int) -> None:
        self.project = project
        self.port = port
        self.run_id = ""
        self.server: Server | None = None
        self.workers: set[int] = set()

    def follow(self, page: list[Block]) -> None:
        """Do what each block says, and compare what it prints with the block after it."""
        for block, after in zip(page, [*page[1:], None], strict=True):
            expected = after.code if after is not None and after.language in ("text", "json") else ""
            if block.file is not None:
                self.save(block)
            elif block.language == "sh":
                self.type(block, expected)

    def save(self, block: Block) -> None:
        """Make the file, or put the code above the flow or below its first step."""
        file = self.project.folder / str(block.file)
        if "above" in block.words or "below" in block.words:
            mark, at_end = ("ship_order = ", False) if "above" in block.words else ("        step(", True)
            lines = file.read_text().splitlines(keepends=True)
            (place,) = [number for number, line in enumerate(lines) if line.startswith(mark)]
            lines.insert(place + at_end, block.code)
            file.write_text("".join(lines))
        else:
            file.write_text(block.code)

    def type(self, block: Block, expected: str) -> None:
        """Type a command, wait for what it needs, and look at what it prints."""
        code = block.code.replace("<checkout>", str(ROOT)).replace("<run-id>", self.run_id)
        expected = expected.replace("8420", str(self.port))
        if "server" in block.words:
            self.serve(code, expected)
            return
        if "reloaded" in block.words:
            self.wait_for_reload()
        if "settled" in block.words:
            wait_until(lambda: shows(expected, self.project.shell(ACTIVATE + code).stdout), expected)
        done = self.project.shell(ACTIVATE + code, check=False)
        assert (block.exits, True) == (done.returncode, shows(expected, f"{done.stdout}\n{done.stderr}")), (
            f"line {block.line}: {code}\n{done.stdout}\n{done.stderr}"
        )
        if "folder" in block.words:
            self.move_in()
        if found := re.search(r'^  "id": "([0-9a-f-]{36})"', done.stdout, re.M):
            self.run_id = found[1]

    def serve(self, code: str, expected: str) -> None:
        """Keep a terminal for the server; it says where it is. Before it is started again, it is stopped."""
        self.interrupt()
        self.server = self.project.serve(
            f'bash -c "{ACTIVATE}exec {code.strip()}"', ABEYANCE_PORT=str(self.port)
        )
        wait_until(lambda: answers(f"http://127.0.0.1:{self.port}/health"), "the server answers")
        assert shows(expected, self.server.printed), self.server.printed
        self.workers = self.server.children()

    def interrupt(self) -> None:
        """Press Ctrl-C where the server is."""
        if self.server is not None:
            assert self.server.stop(signal.SIGINT) == 0, self.server.printed

    def wait_for_reload(self) -> None:
        """Wait until the process that had the old code is gone."""
        assert self.server is not None
        server = self.server
        wait_until(
            lambda: bool(server.children()) and not server.children() & self.workers, "the pack is loaded"
        )

    def move_in(self) -> None:
        """Be in the project's folder, as a reader is. From here pip installs no more than the wheel."""
        self.project.folder /= "shipping"
        self.project.environment["PIP_NO_DEPS"] = "1"
        borrow_dependencies(self.project.folder / ".venv")


@pytest.fixture
def reader(tmp_path: Path, free_port: int) -> Iterator[Reader]:
    with project(tmp_path / "home", {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}) as made:
        yield Reader(made, free_port)


class TestQuickstart:
    def test_every_command_does_what_the_page_says(self, reader: Reader) -> None:
        page = blocks(PAGE)

        reader.follow(page)

        assert {"sh", "text", "json", "python", "toml"} == {block.language for block in page}
        assert (
            str(reader.project.folder / ".venv")
            in reader.project.shell(ACTIVATE + "command -v abeyance").stdout
        )
