"""The README: its code runs, its picture is what happens, and what it names is there."""

import re
import sys
from pathlib import Path

import pytest

from abeyance.engine.packs import load_pack
from abeyance.journal.events import EVENT_TYPES
from tests.support.engine import Deployment
from tests.support.pages import ROOT, blocks

README = ROOT / "README.md"
CARRIER = """
booked = []


def book(order_id, *, callback, reference):
    booked.append((order_id, callback, reference))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with the README's code, and the module that it says is the reader's own."""
    (code,) = [block.code for block in blocks(README) if block.language == "python"]
    (tmp_path / "readme_shop.py").write_text(code)
    (tmp_path / "carrier.py").write_text(CARRIER)
    return tmp_path


class TestReadme:
    @pytest.mark.anyio
    async def test_its_code_runs_as_its_picture_shows(self, folder: Path, deployment: Deployment) -> None:
        """The events on the left side of the picture, in its order."""
        for name in ("readme_shop", "carrier"):
            sys.modules.pop(name, None)
        ship = load_pack("readme_shop", folder).definitions.flows["shop.ship-order"]
        (picture,) = [
            block.code for block in blocks(README) if "the carrier" in block.code and not block.language
        ]
        words = re.findall(r"^ +[│▼] +([a-z-]+)", picture, re.M)
        drawn = [word for word in words if word in EVENT_TYPES]

        async with deployment.process(ship) as process:
            waiting = await process.start(ship, b'{"order_id":"ord_1"}')
            ((_, callback, _),) = sys.modules["carrier"].booked
            await process.answer(callback, b'{"pickup_id":"pk_7"}')
            ended = await process.settled(waiting.id)

            assert b'{"pickup_id":"pk_7"}' == ended.output
            assert await process.topics(waiting.id) == drawn

    def test_its_first_commands_are_targets_of_make(self) -> None:
        named = re.findall(r"^make ([a-z-]+)", README.read_text(), re.M)
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)

        assert ["demo", "test"] == named[:2]
        assert [] == [name for name in named if name not in targets]

    def test_the_folders_that_it_names_are_there(self) -> None:
        (tree,) = [block.code for block in blocks(README) if block.code.startswith("src/abeyance/")]
        listed = re.findall(r"^  ([a-z_./ ]+?)(?:   +|$)", tree, re.M)
        names = [name for line in listed for name in line.split()]
        named = [*(f"src/abeyance/{name}" for name in names), *re.findall(r"^([a-z]+/)", tree, re.M)]

        assert [] == [name for name in named if not (ROOT / name).exists()]
