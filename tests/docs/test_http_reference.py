"""The page about the HTTP API is what the code says."""

import re

import pytest

from abeyance.http.errors import INTERNAL_CODE, TABLE
from abeyance.http.operations import OPERATIONS, Operation
from scripts.http_reference import PAGE, page


class TestHttpReference:
    def test_the_page_is_up_to_date(self) -> None:
        """If not: ``python -m scripts.http_reference``."""
        assert page() == PAGE.read_text(encoding="utf-8")

    def test_it_has_every_route(self) -> None:
        headings = [f"## {operation.method} {operation.path}" for operation in OPERATIONS]

        assert [] == [heading for heading in headings if heading not in page().splitlines()]

    def test_it_has_every_code(self) -> None:
        headings = [f"### {row.example.code}" for row in TABLE] + [f"### {INTERNAL_CODE}"]

        assert [] == [heading for heading in headings if heading not in page().splitlines()]

    @pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
    def test_every_refusal_of_an_operation_leads_to_an_example(self, operation: Operation) -> None:
        whole = page()
        (section,) = re.findall(
            rf"^## {re.escape(f'{operation.method} {operation.path}')}\n(.*?)^## ", whole, re.M | re.S
        )

        refusals = set(re.findall(r"\[([a-z-]+)\]\(#\1\)", section))

        assert {kind.code for kind in operation.every_refusal()} | {INTERNAL_CODE} == refusals
        for code in refusals:
            assert re.search(rf'^### {code}\n\n`\d+`\n\n```json\n.*?"code": "{code}"', whole, re.M | re.S)
