"""`docs/how-to/write-a-tool-that-pauses.md`: its pack loads, and its own tests pass."""

import os
import subprocess
import sys
from pathlib import Path

from abeyance.engine.packs import load_pack
from abeyance.engine.tool_context import DEFAULT_PAUSE_MS, MAX_NAME_LENGTH, MAX_PAUSE_MS
from tests.support.pages import DOCS, ROOT, file_of

PAGE = DOCS / "how-to" / "write-a-tool-that-pauses.md"
FILES = ("carrier_tools.py", "test_carrier_tools.py")


def save(folder: Path) -> None:
    for name in FILES:
        (folder / name).write_text(file_of(PAGE, name))


class TestPage:
    def test_the_pack_loads(self, tmp_path: Path) -> None:
        save(tmp_path)

        pack = load_pack("carrier_tools", tmp_path)

        assert ["shop.request-pickup"] == list(pack.definitions.tools)

    def test_the_tests_of_the_tool_pass(self, tmp_path: Path) -> None:
        save(tmp_path)

        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                str(tmp_path),
                FILES[1],
            ],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(tmp_path)))},
            capture_output=True,
            text=True,
        )

        assert (0, True) == (done.returncode, "2 passed" in done.stdout), done.stdout + done.stderr

    def test_names_the_limits_of_a_pause(self) -> None:
        text = PAGE.read_text()

        assert f"from 1 to {MAX_PAUSE_MS:,} (24 days)".replace(",", " ") in text
        assert 86_400_000 == DEFAULT_PAUSE_MS
        assert f"1 to {MAX_NAME_LENGTH} characters" in text
