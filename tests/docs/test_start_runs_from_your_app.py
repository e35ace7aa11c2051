"""`docs/how-to/start-runs-from-your-app.md`: its Python and its command run, and one key starts one run."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from abeyance.client.transport import PAUSES_S
from abeyance.engine.replies import KEPT_FOR, MAX_REPLY_BYTES, UNDER_WAY_FOR
from abeyance.http.errors import TABLE
from tests.support.pages import DOCS, ROOT, blocks, tables
from tests.support.project import answers, project, wait_until

PAGE = DOCS / "how-to" / "start-runs-from-your-app.md"
PACK = '''
"""Ships orders at once."""

from pydantic import BaseModel, Field

from abeyance import flow, step, tool


class Order(BaseModel):
    """What is shipped."""

    order_id: str = Field(alias="orderId")


@tool(id="shop.ship")
def ship(order: Order) -> Order:
    """Ships it."""
    return order


ship_order = flow("shop.ship-order", input=Order, steps=[step("ship", ship)])
'''


class TestPage:
    @pytest.mark.slow
    def test_what_it_shows_starts_one_run_for_one_key(self, tmp_path: Path, free_port: int) -> None:
        with project(tmp_path / "shop") as shop:
            (shop.folder / "shop.py").write_text(PACK)
            python = "\n".join(block.code for block in blocks(PAGE) if block.language == "python")
            (shop.folder / "page.py").write_text(python)
            key = "abk_how_to_how_to_how_to"
            shop.serve(f"abeyance dev --pack shop --port {free_port}", ABEYANCE_API_KEY=key)
            url = f"http://127.0.0.1:{free_port}"
            wait_until(lambda: answers(f"{url}/health"), "the server answers")
            shop.environment |= {"ABEYANCE_API_URL": url, "ABEYANCE_API_KEY": key}
            (command,) = [block.code for block in blocks(PAGE) if block.language == "sh"]

            path = f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))}"
            shop.shell(f"{path} {shlex.quote(sys.executable)} page.py")
            first, second = (shop.shell(command).stdout for _ in range(2))
            listed = json.loads(shop.shell("abeyance runs list").stdout)["data"]

        assert "completed" == json.loads(first)["status"]
        assert first == second
        assert 3 == len(listed)

    def test_it_names_the_limits(self) -> None:
        text = PAGE.read_text()

        assert f"kept for {KEPT_FOR.total_seconds() / 3600:.0f} hours" in text
        assert f"more than {MAX_REPLY_BYTES // 1024} KiB" in text
        assert (3, 4.0) == (len(PAUSES_S), sum(PAUSES_S))
        assert "three times within four seconds" in text
        assert 60 == UNDER_WAY_FOR.total_seconds()

    def test_its_table_has_every_code_about_keys(self) -> None:
        (rows,) = tables(PAGE, "Send a request again")
        codes = {row.example.code for row in TABLE if row.example.code.startswith("idempotency-")}

        assert codes == {cell.strip("`").removeprefix("409 ") for cell, *_ in rows if "idempotency-" in cell}
