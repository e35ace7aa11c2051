"""The page of a link in a real browser, with JavaScript off: Debian's chromium, driven by playwright.

`ABEYANCE_TEST_SCREENSHOT` names a folder for pictures of it; the one in the how-to page is `filled`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_answer_a_link import Shop
from tests.support.project import project

sync_api = pytest.importorskip("playwright.sync_api")

pytestmark = [pytest.mark.system, pytest.mark.slow]

PHONE, DESK = {"width": 360, "height": 740}, {"width": 900, "height": 700}
TAKEN = "Your answer was taken"
NO_LABEL = """() => [...document.querySelectorAll('input, select, textarea')]
    .filter(each => !each.labels.length).map(each => each.name)"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        # Root has no name space of its own to put a sandbox into.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture
def shop(tmp_path: Path, free_port: int) -> Iterator[Shop]:
    with project(tmp_path / "shop") as made:
        yield Shop(made, free_port)


@contextmanager
def opened(browser: Any, url: str, **more: Any) -> Iterator[Any]:
    """The page at `url`. Whatever the browser is asked for but the page itself fails the test."""
    context = browser.new_context(
        **{"java_script_enabled": False, "viewport": DESK, "locale": "en-GB", **more}
    )
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    reply = page.goto(url)
    assert reply.status == 200
    yield page
    assert {url.partition("?")[0]} == {each.partition("?")[0] for each in asked}
    assert [] == [each for each in complaints if "status of 4" not in each]
    context.close()


def has_title(page: Any, title: str) -> None:
    """Wait for the page with this title."""
    sync_api.expect(page).to_have_title(title)


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("ABEYANCE_TEST_SCREENSHOT"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


class TestPage:
    def test_a_person_says_yes(self, chromium: Any, shop: Shop) -> None:
        run_id, _, url = shop.ask()
        with opened(chromium, url) as page:
            picture(page, "asked")
            page.get_by_role("radio", name="Yes, we come").check()
            page.get_by_label("Pickup ID").fill("pk_7")
            page.get_by_label("Date and time").fill("2026-10-25T09:00")
            page.get_by_label("Time zone, from UTC").select_option("UTC+02:00")
            picture(page, "filled")
            page.get_by_role("button", name="Send the answer").click()

            has_title(page, TAKEN)
            picture(page, "taken")
        assert shop.output(run_id) is None
        assert '"pickupAt":"2026-10-25T09:00:00+02:00"' in shop.journal(run_id)

    def test_a_person_says_no_on_a_phone(self, chromium: Any, shop: Shop) -> None:
        run_id, _, url = shop.ask()
        with opened(chromium, url, viewport=PHONE, color_scheme="dark") as page:
            page.get_by_role("radio", name="No, we can't").check()
            assert not page.get_by_label("Pickup ID").is_visible()
            page.get_by_role("radio", name="too far").check()
            page.get_by_label("Note").fill("300 km, “at least”\n<b>sorry</b>")
            picture(page, "phone-dark")
            page.get_by_role("button").click()

            has_title(page, TAKEN)
        assert {"carrier": "the other one"} == shop.output(run_id)
        assert '"note":"300 km, “at least”\\n<b>sorry</b>"' in shop.journal(run_id)

    def test_what_is_refused_comes_back_and_the_summary_leads_to_it(self, chromium: Any, shop: Shop) -> None:
        _, _, url = shop.ask()
        with opened(chromium, url) as page:
            page.get_by_role("radio", name="Yes, we come").check()
            page.get_by_label("Pickup ID").fill("seven <7>")
            page.get_by_label("Date and time").fill("2026-10-25T09:00")
            page.keyboard.press("Enter")

            has_title(page, "Error: The carrier's pickup confirmation")
            picture(page, "refused")
            field = page.get_by_label("Pickup ID")
            assert "seven <7>" == field.input_value()
            assert "2026-10-25T09:00" == page.get_by_label("Date and time").input_value()
            assert "true" == field.get_attribute("aria-invalid")
            page.get_by_role("alert").get_by_role("link").first.click()
            page.keyboard.press("Control+A")
            page.keyboard.type("pk_7")
            page.get_by_label("Time zone, from UTC").select_option("UTC")
            page.get_by_role("button").click()

            has_title(page, TAKEN)

    def test_the_keyboard_alone_will_do(self, chromium: Any, shop: Shop) -> None:
        run_id, _, url = shop.ask()
        with opened(chromium, url) as page:
            for key in ("Tab", "Space", "ArrowDown", "Tab", "Space", "Tab", "Tab", "Enter"):
                page.keyboard.press(key)

            has_title(page, TAKEN)
        assert {"carrier": "the other one"} == shop.output(run_id)

    def test_the_same_again_is_taken_and_another_one_is_told_that_it_is_late(
        self, chromium: Any, shop: Shop
    ) -> None:
        _, _, url = shop.ask()
        with opened(chromium, url) as first, opened(chromium, url) as second, opened(chromium, url) as third:
            for page, reason in ((first, "too far"), (second, "too far"), (third, "no driver")):
                page.get_by_role("radio", name="No, we can't").check()
                page.get_by_role("radio", name=reason).check()
                page.get_by_role("button").click()
                has_title(page, TAKEN if page is not third else "This has been answered before")
        with opened(chromium, url) as page:
            has_title(page, "This has been answered")

    def test_every_control_has_a_label_and_nothing_runs(self, chromium: Any, shop: Shop) -> None:
        """With JavaScript on, so that the page can be asked; its own policy lets nothing of it run."""
        _, _, url = shop.ask()
        with opened(chromium, url, java_script_enabled=True, viewport=PHONE) as page:
            assert [] == page.evaluate(NO_LABEL)
            assert "en" == page.evaluate("document.documentElement.lang")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.evaluate("document.querySelectorAll('[type=radio]').forEach(each => each.click())")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def test_json_is_taken_from_those_who_prefer_it(self, chromium: Any, shop: Shop) -> None:
        run_id, _, url = shop.ask()
        with opened(chromium, url) as page:
            page.get_by_role("link", name="Answer as JSON instead").click()
            page.get_by_label("Answer as JSON").fill('{"answer": "declined"')
            page.get_by_role("button").click()
            assert "This isn't JSON." in page.get_by_role("alert").inner_text()
            page.get_by_label("Answer as JSON").fill('{"answer": "declined", "reason": "no driver"}')
            page.get_by_role("button").click()

            has_title(page, TAKEN)
        assert {"carrier": "the other one"} == shop.output(run_id)
