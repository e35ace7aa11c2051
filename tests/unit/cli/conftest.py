"""What the tests of the command line share: a fake server, and a way to call the command."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from abeyance.cli import main
from tests.unit.cli.fake_api import FakeApi, serving


@dataclass(frozen=True)
class Outcome:
    """What a command did: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeApi]:
    """A server that the commands find by `ABEYANCE_API_URL`, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with serving() as api:
        monkeypatch.setenv("ABEYANCE_API_URL", api.url)
        monkeypatch.setenv("ABEYANCE_API_KEY", "k" * 32)
        yield api


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Call `abeyance` with these arguments, in this process."""

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
