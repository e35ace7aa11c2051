"""How `serve` and `worker` refuse to start: once, before they fork, in a line that says what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import DOCS, file_of
from tests.support.project import Project, answers, project, wait_until

pytestmark = pytest.mark.slow

PACK = file_of(DOCS / "quickstart.md", "shipping.py")


@pytest.fixture
def operator(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    """Somebody who has set everything but the origin."""
    url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else ""
    variables = {
        "ABEYANCE_DATABASE_URL": url,
        "ABEYANCE_API_KEY": "k" * 32,
        "ABEYANCE_KEY_DIR": str(tmp_path / "keys"),
        "ABEYANCE_PUBLIC_URL": "https://runs.example.com",
        "ABEYANCE_PORT": "0",
    }
    with project(tmp_path / "shipping", variables) as made:
        (made.folder / "pyproject.toml").write_text('[tool.abeyance]\npack = "shipping"\n')
        (made.folder / "shipping.py").write_text(PACK)
        made.shell(f"abeyance keys make {tmp_path / 'keys'}")
        yield made


class TestStarting:
    @pytest.mark.parametrize("command", ["serve", "worker"])
    def test_a_new_store_without_an_origin_is_refused_once(self, operator: Project, command: str) -> None:
        done = operator.shell(f"abeyance {command}", check=False)

        (line,) = done.stderr.splitlines()
        assert (1, "") == (done.returncode, done.stdout)
        assert line.startswith("error[configuration-error]: ABEYANCE_ORIGIN is not set")
        assert not (operator.folder / ".abeyance").exists()

    @pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True)
    @pytest.mark.parametrize("command", ["serve", "worker"])
    def test_a_second_process_on_a_sqlite_store_is_refused_once(
        self, operator: Project, command: str
    ) -> None:
        operator.environment["ABEYANCE_ORIGIN"] = "shop.example.com/runs"
        operator.serve("abeyance serve").wait_for("serving at")
        wait_until(lambda: (operator.folder / ".abeyance" / "journal.db").exists(), "the store is open")

        done = operator.shell(f"abeyance {command}", check=False)

        (line,) = done.stderr.splitlines()
        assert 1 == done.returncode
        assert "a SQLite store serves one process" in line


class TestDoctor:
    def test_finds_nothing_wrong_beside_a_running_server(self, operator: Project, free_port: int) -> None:
        """It asks at the public address, and leaves the server as it was."""
        url = f"http://127.0.0.1:{free_port}"
        operator.environment |= {
            "ABEYANCE_ORIGIN": "shop.example.com/runs",
            "ABEYANCE_PORT": str(free_port),
            "ABEYANCE_PUBLIC_URL": url,
        }
        operator.serve("abeyance serve")
        wait_until(lambda: answers(f"{url}/ready"), "the server is ready")

        done = operator.shell("abeyance doctor", check=False)

        assert (0, True) == (done.returncode, f"{url} answers as a link does" in done.stdout), done.stdout
        assert answers(f"{url}/ready")
