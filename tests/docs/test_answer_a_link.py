"""`docs/how-to/answer-a-link.md`: its commands are typed against a server that runs its pack."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from abeyance.http.errors import TABLE
from abeyance.http.operations import OPERATIONS
from tests.support.pages import DOCS, blocks, file_of, shows
from tests.support.project import Project, answers, project, wait_until

PAGE = DOCS / "how-to" / "answer-a-link.md"
START = """abeyance runs start --flow=shop.ship-order --input='{"orderId":"ord_1"}'"""


class Shop:
    """Whoever sends links, with `abeyance dev` open."""

    def __init__(self, project: Project, port: int) -> None:
        self.project = project
        (project.folder / "shipping.py").write_text(file_of(PAGE, "shipping.py"))
        server = project.serve("abeyance dev --pack=shipping", ABEYANCE_PORT=str(port))
        ended = server.process.poll
        wait_until(
            lambda: answers(f"http://127.0.0.1:{port}/health") or ended() is not None, "the server answers"
        )
        assert ended() is None, server.printed

    def ask(self) -> tuple[str, str, str]:
        """Start a run; its id, the link and the link's page."""
        run = json.loads(self.project.shell(START).stdout)
        assert "suspended" == run["status"]
        link, page = (self.project.folder / "outbox.txt").read_text().split()
        return run["id"], link, page

    def run(self, run_id: str) -> dict[str, object]:
        """The run as it is."""
        return dict(json.loads(self.project.shell(f"abeyance runs get {run_id}").stdout))

    def output(self, run_id: str) -> object:
        """The run's output once it has ended."""
        wait_until(lambda: self.run(run_id)["status"] not in ("running", "suspended"), "the run ends")
        return self.run(run_id)["output"]

    def journal(self, run_id: str) -> str:
        """The run's events with what was said, as JSON without white space."""
        page = json.loads(self.project.shell(f"abeyance runs journal {run_id} --content").stdout)
        return json.dumps(page, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture
def shop(tmp_path: Path, free_port: int) -> Iterator[Shop]:
    with project(tmp_path / "shop") as made:
        yield Shop(made, free_port)


@pytest.mark.slow
class TestCommands:
    def test_every_command_is_told_what_the_page_says(self, shop: Shop) -> None:
        page = blocks(PAGE)
        typed = 0
        for block, after in pairwise(page):
            if block.language != "sh":
                continue
            run_id, link, _ = shop.ask()

            done = shop.project.shell(block.code.replace("<link>", link))

            assert shows(after.code, done.stdout), f"line {block.line}: {done.stdout}"
            typed += 1
            if "declines" in block.words:
                assert {"carrier": "the other one"} == shop.output(run_id)
        assert typed == 4


class TestTable:
    def test_it_has_every_refusal_of_the_link(self) -> None:
        (link,) = (each for each in OPERATIONS if each.name == "completeWaitToken")
        statuses = {type(row.example): row.status for row in TABLE}
        page = PAGE.read_text()

        missing = {
            refusal.code
            for refusal in link.every_refusal()
            if refusal.code not in page and f"`{statuses[refusal]}`" not in page
        }

        assert set() == missing
