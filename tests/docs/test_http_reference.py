"""The page about the HTTP API is what the code says."""

from abeyance.http.errors import INTERNAL_CODE, TABLE
from abeyance.http.operations import OPERATIONS
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
