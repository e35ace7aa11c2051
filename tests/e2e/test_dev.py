"""`abeyance dev` for the one who writes the pack: what it shows of their mistakes, and that it goes on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import DOCS, file_of
from tests.support.project import Project, Server, answers, project, wait_until

pytestmark = pytest.mark.slow

PACK = file_of(DOCS / "quickstart.md", "shipping.py")
PAUSE = '    return ctx.pause(timeout_ms=2 * 60 * 60 * 1000, name="the carrier\'s confirmation")\n'
START = """abeyance runs start --flow=shipping.ship-order --input='{"orderId":"ord_1"}'"""


class Author:
    """Somebody who has `abeyance dev` open beside an editor."""

    def __init__(self, project: Project, port: int) -> None:
        self.project = project
        self.port = port
        (project.folder / "pyproject.toml").write_text('[tool.abeyance]\npack = "shipping"\n')
        self.save(PACK)
        self.server = self.serve()

    def serve(self) -> Server:
        """Start `abeyance dev`."""
        server = self.project.serve("abeyance dev", ABEYANCE_PORT=str(self.port))
        wait_until(lambda: answers(f"http://127.0.0.1:{self.port}/health"), "the server answers")
        return server

    def save(self, pack: str) -> None:
        """Save the pack."""
        (self.project.folder / "shipping.py").write_text(pack)

    def save_and_wait(self, pack: str) -> None:
        """Save the pack; return once the process that had the old one is gone."""
        old = self.server.children()
        self.save(pack)
        wait_until(lambda: not self.server.children() & old, "the old process is gone")

    def runs(self) -> str:
        """Start a run and say how it is."""
        done = self.project.shell(START, check=False)
        return str(json.loads(done.stdout)["status"]) if done.stdout else done.stderr


@pytest.fixture
def author(tmp_path: Path, free_port: int) -> Iterator[Author]:
    with project(tmp_path / "shipping") as made:
        yield Author(made, free_port)


class TestDev:
    def test_shows_where_a_handler_failed(self, author: Author) -> None:
        """The author's own file, line and text of the line, and the kind of the error."""
        author.save_and_wait(PACK.replace(PAUSE, '    raise LookupError("no such depot")\n'))

        assert "failed" == author.runs()

        author.server.wait_for("LookupError")
        assert (
            f'File "{author.project.folder}/shipping.py", line 25, in request_pickup' in author.server.printed
        )
        assert 'raise LookupError("no such depot")' in author.server.printed

    def test_a_link_is_in_no_output(self, author: Author) -> None:
        assert "suspended" == author.runs()

        link = (author.project.folder / "carrier-inbox.txt").read_text().split()[2]
        assert "/v1/wait-tokens/" in link
        assert link.split("/")[-2] not in author.server.printed

    def test_a_pack_that_can_t_be_loaded_is_told_at_the_first_start(self, author: Author) -> None:
        """It says which file, which line, what is wrong; and the client finds no server."""
        assert 0 == author.server.stop()
        author.save(PACK + "def broken(:\n")

        server = author.project.serve("abeyance dev", ABEYANCE_PORT=str(author.port))

        server.wait_for("error[invalid-tool-definition]: shipping: importing it failed")
        assert f"(shipping.py, line {len(PACK.splitlines()) + 1})" in server.printed
        found = author.project.folder / ".abeyance" / "dev.json"
        wait_until(lambda: not found.exists(), "no server is to be found")

    def test_a_broken_save_is_told_and_the_next_one_is_served(self, author: Author) -> None:
        author.save_and_wait(PACK + "def broken(:\n")
        author.server.wait_for("importing it failed")

        author.save_and_wait(PACK)

        wait_until(lambda: answers(f"http://127.0.0.1:{author.port}/health"), "it serves again", within_s=10)
        assert "suspended" == author.runs()

    def test_a_second_one_is_told_that_the_store_is_taken(self, author: Author) -> None:
        """Two processes on one SQLite store would each believe the runs to be theirs."""
        second = author.project.serve("abeyance dev", ABEYANCE_PORT="0")

        assert 1 == second.process.wait(30)
        assert "a SQLite store serves one process" in second.printed
        assert "suspended" == author.runs()
