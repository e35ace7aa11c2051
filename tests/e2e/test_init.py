"""A newcomer: the wheel, `abeyance init`, and then what the new folder's README says, word for word."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT, blocks
from tests.support.project import Project, answers, borrow_dependencies, project, wait_until

pytestmark = pytest.mark.slow

ACTIVATE = ". ../.venv/bin/activate\n"


@pytest.fixture
def newcomer(tmp_path: Path, free_port: int) -> Iterator[Project]:
    """Somebody with a virtual environment that has the built wheel, in a new folder."""
    variables = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "ABEYANCE_PORT": str(free_port),
    }
    with project(tmp_path / "home", variables) as made:
        made.shell(f"python3 -m venv .venv && .venv/bin/pip wheel --quiet --no-deps --wheel-dir dist {ROOT}")
        borrow_dependencies(made.folder / ".venv")
        made.shell(".venv/bin/pip install --quiet --no-deps dist/abeyance-*.whl")
        made.shell(".venv/bin/abeyance init shipping")
        made.folder /= "shipping"
        yield made


class TestNewProject:
    def test_it_works_as_its_readme_says(self, newcomer: Project, free_port: int) -> None:
        serve, start, answer, get, resume = [
            block.code for block in blocks(newcomer.folder / "README.md") if block.language == "sh"
        ]
        newcomer.serve(f'bash -c "{ACTIVATE}{serve.strip()}"')
        wait_until(lambda: answers(f"http://127.0.0.1:{free_port}/health"), "the server answers")

        started = newcomer.shell(ACTIVATE + start).stdout
        accepted = newcomer.shell(ACTIVATE + answer).stdout

        assert '"status": "suspended"' in started
        assert '{"status":"accepted"}' == accepted.strip()
        run_id = re.findall(r'"id": "([0-9a-f-]{36})"', started)[0]
        get = ACTIVATE + get.replace("<run-id>", run_id)
        wait_until(lambda: '"status": "completed"' in newcomer.shell(get).stdout, "the run is completed")
        again = newcomer.shell(ACTIVATE + resume.replace("<run-id>", run_id), check=False)
        assert (1, True) == (again.returncode, "error[" in again.stderr)
        assert "carrier.jsonl" in (newcomer.folder / ".gitignore").read_text()

    def test_its_own_test_passes(self, newcomer: Project) -> None:
        done = newcomer.shell(ACTIVATE + "python -m pytest -q -p no:cacheprovider")

        assert "1 passed" in done.stdout
        assert (
            str(newcomer.folder.parent / ".venv")
            in newcomer.shell(ACTIVATE + 'python -c "import abeyance; print(abeyance.__file__)"').stdout
        )
