"""`docs/how-to/find-out-why-a-run-waits.md`: its commands work, its sentences are printed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import DOCS, blocks, file_of, tables
from tests.support.project import Project, answers, project, wait_until

pytestmark = pytest.mark.slow

PAGE = DOCS / "how-to" / "find-out-why-a-run-waits.md"
PACK = file_of(DOCS / "quickstart.md", "shipping.py")
TELL = """
@tool(id="shipping.tell-customer")
def tell_customer(order: Order) -> Order:
    return order


"""
SLEEPER = """

from abeyance import Retry, ScriptContext, script


@script(id="shipping.wait")
async def wait(ctx: ScriptContext, order: Order) -> Order:
    await ctx.sleep(3600)
    return order


@tool(id="shipping.fail")
def fail(order: Order) -> Order:
    raise LookupError("no such depot")


again = flow(
    "shipping.again", input=Order, steps=[step("pickup", fail, retry=Retry(attempts=2, delay_ms=3_600_000))]
)
"""
INPUT = """--input='{"orderId":"ord_1001"}'"""


class Operator:
    """Somebody with a project that serves, and runs that don't go on."""

    def __init__(self, project: Project, port: int) -> None:
        self.project = project
        self.port = port
        (project.folder / "pyproject.toml").write_text('[tool.abeyance]\npack = "shipping"\n')

    def serve(self, pack: str) -> None:
        """Serve with this code, instead of what was served before."""
        self.project.stop()
        (self.project.folder / "shipping.py").write_text(pack)
        self.project.serve("abeyance dev --no-reload", ABEYANCE_PORT=str(self.port))
        wait_until(lambda: answers(f"http://127.0.0.1:{self.port}/health"), "the server answers")

    def start(self, what: str) -> str:
        """Start a run and leave it; its id."""
        done = self.project.shell(f"abeyance runs start {what} {INPUT} --label order=ord_1001")
        return str(json.loads(done.stdout)["id"])

    def ask(self, run_id: str) -> tuple[int, str]:
        """What it waits for: exit code and sentence, without what differs between runs."""
        done = self.project.shell(f"abeyance runs resume {run_id}", check=False)
        return done.returncode, done.stderr

    def kinds(self, run_id: str) -> list[str]:
        """Its events."""
        journal = json.loads(self.project.shell(f"abeyance runs journal {run_id}").stdout)
        return [event["kind"] for event in journal["data"]]


def row(number: int) -> tuple[int, re.Pattern[str]]:
    """The exit code and the sentence of a row of the page; `…` stands for anything."""
    code, sentence, _ = tables(PAGE, "What for")[0][number]
    parts = sentence.strip("`").split("…")
    return int(code), re.compile(".*".join(map(re.escape, parts)))


@pytest.fixture
def operator(tmp_path: Path, free_port: int) -> Iterator[Operator]:
    with project(tmp_path / "shipping") as made:
        yield Operator(made, free_port)


class TestSentences:
    def test_are_those_of_the_page(self, operator: Operator) -> None:
        """Each row, with its exit code; then the page's commands, one after the other."""
        operator.serve(PACK + SLEEPER)
        waits = operator.start("--flow=shipping.ship-order")
        runs = [waits, operator.start("--script=shipping.wait"), operator.start("--flow=shipping.again")]

        for number, run_id in enumerate(runs):
            code, sentence = row(number)
            asked = operator.ask(run_id)
            assert code == asked[0]
            assert sentence.search(asked[1]), asked

        found = {}
        for block in blocks(PAGE):
            for line in block.code.splitlines():
                found[line] = operator.project.shell(line.replace("<run-id>", waits)).stdout
        assert all(run_id in found["abeyance runs list --label order=ord_1001 --table"] for run_id in runs)
        assert "the carrier's confirmation" not in found["abeyance runs journal <run-id> --table"]
        assert "ord_1001" in found["abeyance runs journal <run-id> --content"]
        assert "cancelled" == json.loads(found["abeyance runs cancel <run-id>"])["status"]
        assert "verified" == json.loads(found["abeyance audit verify <run-id>"])["verdict"]

    def test_code_that_doesn_t_fit_is_named_with_both_sides(self, operator: Operator) -> None:
        """After a restart with the old code the run waits for its minute; a cancel ends it."""
        operator.serve(PACK)
        run_id = operator.start("--flow=shipping.ship-order")
        other = PACK.replace("ship_order = ", f"{TELL}ship_order = ").replace(
            'step("pickup", request_pickup)', 'step("pickup", tell_customer)'
        )
        operator.serve(other)
        link = (operator.project.folder / "carrier-inbox.txt").read_text().split()[-1]
        operator.project.shell(
            f"curl -s -X POST {link} -H 'content-type: application/json'"
            """ -d '{"pickupId":"pk_7","pickupAt":"2026-10-25T09:00:00Z"}'"""
        )
        wait_until(lambda: "code-mismatch" in operator.kinds(run_id), "the run is parked")

        code, sentence = row(3)
        asked = operator.ask(run_id)
        assert code == asked[0]
        assert sentence.search(asked[1]), asked

        operator.project.shell(f"abeyance runs cancel {run_id}")
        assert ["code-mismatch", "cancelled"] == operator.kinds(run_id)[-2:]

    def test_a_run_that_ended_waits_for_nothing(self, operator: Operator) -> None:
        operator.serve(PACK)
        run_id = operator.start("--flow=shipping.ship-order")
        answer = """--output='{"pickupId":"pk_7","pickupAt":"2026-10-25T09:00:00Z"}'"""
        operator.project.shell(f"abeyance runs resume {run_id} {answer}")

        code, sentence = row(6)
        asked = operator.ask(run_id)
        assert code == asked[0]
        assert sentence.search(asked[1]), asked
