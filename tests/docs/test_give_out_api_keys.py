"""The commands of `docs/how-to/give-out-api-keys.md`, and what it says of grants."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from abeyance.engine.callers import GRANTS
from tests.support.pages import DOCS, blocks
from tests.support.project import Project, project
from tests.support.site import API_KEY, Site

FILE = DOCS / "how-to" / "give-out-api-keys.md"
CREATE, LIST_AND_REVOKE = (block.code for block in blocks(FILE))


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path / "site") as made, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        site = Site(made, [int(probe.getsockname()[1])])
        probe.close()
        site.set_up(None)
        _, port = site.serve()
        made.environment |= {"ABEYANCE_API_URL": f"http://127.0.0.1:{port}"}
        yield made


class TestPage:
    def test_its_table_has_every_grant(self) -> None:
        assert list(GRANTS) == re.findall(r"^\| `(\w+)` \|", FILE.read_text(), re.MULTILINE)

    @pytest.mark.slow
    def test_its_commands_make_a_key_that_works_until_it_is_revoked(self, operator: Project) -> None:
        operator.shell("abeyance projects create shop")
        made = json.loads(operator.shell(CREATE).stdout)
        operator.environment["ABEYANCE_API_KEY"] = made["key"]
        works = operator.shell("abeyance runs list", check=False)
        operator.environment["ABEYANCE_API_KEY"] = API_KEY
        revoke = re.sub(r"key_\w+", made["id"], LIST_AND_REVOKE)
        printed = operator.shell(revoke).stdout
        operator.environment["ABEYANCE_API_KEY"] = made["key"]
        refused = operator.shell("abeyance runs list", check=False)

        assert (0, 1) == (works.returncode, refused.returncode)
        assert "error[unauthenticated]" in refused.stderr
        assert "the web shop" in printed
        assert "revokedAt" in printed
        assert made["key"] not in printed
