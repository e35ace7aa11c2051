"""Requests made of the OpenAPI document, fit and unfit, at a real server: no 5xx, no undocumented answer.

Schemathesis has an environment of its own (`scripts/tools.txt`), which `make test` makes.
`ABEYANCE_TEST_SCHEMATHESIS` names its command elsewhere.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.project import Project, answers, project, wait_until

pytestmark = pytest.mark.slow

COMMAND = Path(os.environ.get("ABEYANCE_TEST_SCHEMATHESIS") or ROOT / ".venv-tools" / "bin" / "st")
KEY = "k" * 32
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
    "unsupported_method", "allow_header_conformance", "ignored_auth",
)  # fmt: skip


@dataclass(frozen=True)
class Deployment:
    """A server, and a run that waits there."""

    url: str
    folder: Path
    run_id: str
    wait: str
    token: str
    client: Project


@pytest.fixture
def deployment(
    store_kind: str, tmp_path: Path, free_port: int, request: pytest.FixtureRequest
) -> Iterator[Deployment]:
    """`abeyance serve` with the shop, without a limit of links."""
    url = f"http://127.0.0.1:{free_port}"
    variables = {
        "ABEYANCE_DATABASE_URL": request.getfixturevalue("postgres_url") if store_kind == "postgres" else "",
        "ABEYANCE_DATA_DIR": str(tmp_path / "data"),
        "ABEYANCE_KEY_DIR": str(tmp_path / "keys"),
        "ABEYANCE_ORIGIN": "shop.example.com/runs",
        "ABEYANCE_PUBLIC_URL": url,
        "ABEYANCE_PORT": str(free_port),
        "ABEYANCE_API_KEY": KEY,
        "ABEYANCE_API_URL": url,
        "ABEYANCE_LINK_RATE": "0",
        "ABEYANCE_PROJECT_DIR": str(ROOT / "examples" / "shop"),
        "ABEYANCE_PACK": "shop",
        "SHOP_CARRIER_FILE": str(tmp_path / "carrier.jsonl"),
    }
    with project(tmp_path / "work", variables) as made:
        made.shell(f"abeyance keys make {tmp_path / 'keys'}")
        made.serve("abeyance serve")
        wait_until(lambda: answers(f"{url}/ready"), "the server is ready")
        run = json.loads(
            made.shell("""abeyance runs start --flow=shop.ship-order --input='{"orderId":"ord_1"}'""").stdout
        )
        link = json.loads((tmp_path / "carrier.jsonl").read_text())["callbackUrl"]
        made.shell("abeyance workspaces create shop")
        made.shell("abeyance projects create web --workspace shop")
        (wait,) = run["waitingFor"]["tokens"]
        yield Deployment(url, made.folder, run["id"], wait["tokenId"], link.split("/")[-2], made)


def requests(deployment: Deployment, *, seed: int, parameters: dict[str, str]) -> None:
    """Send them; fails with what schemathesis says."""
    settings = deployment.folder / "schemathesis.toml"
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in parameters.items()]
    # What the server itself refuses, before the API: 414 and 431.
    refused = "expected-statuses = [400, 401, 403, 404, 405, 409, 413, 414, 415, 429, 431]"
    settings.write_text("\n".join(["[checks.negative_data_rejection]", refused, "[parameters]", *lines, ""]))
    command = [
        str(COMMAND), "--config-file", str(settings), "run", f"{deployment.url}/v1/openapi.json",
        "--header", f"Authorization: Bearer {KEY}", "--checks", ",".join(CHECKS),
        "--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", str(seed),
        "--continue-on-failure", "--request-timeout", "40", "--suppress-health-check", "all",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=deployment.folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.skipif(not COMMAND.exists(), reason=f"{COMMAND} is not there; `make test` installs it")
class TestDocumentedApi:
    def test_no_request_gets_a_5xx_or_an_undocumented_answer(
        self, deployment: Deployment, seed: int, store_kind: str
    ) -> None:
        """On SQLite with any ids, on PostgreSQL at a run, a wait, a link and a project that are there."""
        there = {
            "path.id": deployment.run_id,
            "path.wait": deployment.wait,
            "path.token": deployment.token,
            "path.workspace": "shop",
            "path.project": "web",
        }

        requests(deployment, seed=seed, parameters=there if store_kind == "postgres" else {})

        get = deployment.client.shell(f"abeyance runs get {deployment.run_id}")
        assert json.loads(get.stdout)["status"] in ("suspended", "completed", "failed", "cancelled")
