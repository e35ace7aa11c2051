"""The page that verifies a bundle, in a real browser without a network: it finds what the program finds."""

import base64
import gzip
import os
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from abeyance.audit.export import Filter
from abeyance.cli.app import app
from abeyance.crypto.signing import FileSigner
from abeyance.verifier.command import verify
from abeyance.verifier.verification import Wanted
from tests.support.bundles import (
    FIRST_RUN,
    FOREIGN,
    ROOT_KEY,
    Line,
    body_of,
    bundle_of,
    export,
    forged,
    lines_of,
    resealed,
    signed,
)
from tests.unit.projections.histories import ROOT, START

sync_api = pytest.importorskip("playwright.sync_api")

pytestmark = [pytest.mark.system, pytest.mark.slow]

Check = Callable[..., tuple[str, list[str]]]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    file = tmp_path_factory.mktemp("auditor") / "verify.html"
    done = CliRunner().invoke(app, ["audit", "verifier", "--html", "--out", str(file)])
    assert 0 == done.exit_code, done.output
    with sync_api.sync_playwright() as playwright:
        # Root has no name space of its own to put a sandbox into.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=options)
        context = browser.new_context(offline=True)
        opened = context.new_page()
        asked: list[str] = []
        opened.on("request", lambda request: asked.append(request.url))
        complaints: list[str] = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(file.as_uri())
        yield opened
        assert {file.as_uri()} == {each for each in asked if not each.startswith("blob:")}
        assert [] == complaints
        browser.close()


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The whole log, one run of it, and a time of it."""
    time = Filter(since=START, until=START + timedelta(seconds=1))
    return export(tmp_path_factory.mktemp("log"), Filter(), Filter(run=FIRST_RUN), time)


@pytest.fixture(scope="module")
def whole(bundles: list[bytes]) -> list[Line]:
    return lines_of(bundles[0])


@pytest.fixture
def check(page: Any) -> Check:
    """Give the page a bundle and a root key: its verdict and findings."""

    def run(bundle: bytes, key: str = ROOT_KEY) -> tuple[str, list[str]]:
        page.set_input_files("#file", {"name": "log.jsonl", "mimeType": "", "buffer": bundle})
        page.fill("#key", key)
        page.evaluate("document.getElementById('result').replaceChildren()")
        page.click("button")
        page.wait_for_selector("#verdict")
        return page.get_attribute("#verdict", "data-verdict"), page.locator("#findings li").all_inner_texts()

    return run


def by_program(bundle: bytes, folder: Path) -> str:
    file = folder / "bundle.jsonl"
    file.write_bytes(bundle)
    return str(verify(file, Wanted(pinned=ROOT.public_key), jobs=1)["verdict"])


class TestPage:
    def test_whole_filtered_and_packed_bundles_are_verified(self, bundles: list[bytes], check: Check) -> None:
        packed = gzip.compress(bundles[0])

        assert [("verified", [])] * 4 == [check(each) for each in (*bundles, packed)]

    def test_it_counts_what_it_has_checked(self, bundles: list[bytes], check: Check, page: Any) -> None:
        check(bundles[0])

        said = page.inner_text("#result")

        assert "VERIFIED" in said
        assert ["51", "51", "9", "52"] == page.locator("dd").all_inner_texts()[2:6]
        assert "What this does not prove" in said

    def test_a_root_key_is_taken_as_pem_too(self, bundles: list[bytes], check: Check) -> None:
        der = bytes.fromhex("302a300506032b6570032100") + ROOT.public_key
        pem = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"

        assert "verified" == check(bundles[0], pem)[0]

    def test_without_a_root_key_nothing_is_green(self, bundles: list[bytes], check: Check) -> None:
        assert "unanchored" == check(bundles[0], "")[0]

    def test_another_root_key_is_found(self, bundles: list[bytes], check: Check) -> None:
        verdict, found = check(bundles[0], base64.b64encode(FOREIGN.public_key).decode())

        assert "tampered" == verdict
        assert any("another root key" in each for each in found)

    @pytest.mark.parametrize(
        "key", ["x", "AAAA", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----"]
    )
    def test_what_is_no_root_key_is_refused(self, bundles: list[bytes], check: Check, key: str) -> None:
        assert "unusable" == check(bundles[0], key)[0]

    @pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"not json\n", b"\x1f\x8bxx", b"[" * 5_000])
    def test_what_is_no_bundle_is_unusable(self, check: Check, content: bytes) -> None:
        assert "unusable" == check(content)[0]

    def test_a_browser_without_ed25519_says_so(self, bundles: list[bytes], check: Check, page: Any) -> None:
        page.evaluate(
            "() => { Right = crypto.subtle.verify; crypto.subtle.verify = async () => { throw 0 } }"
        )
        try:
            verdict, found = check(bundles[0])
        finally:
            page.evaluate("() => { crypto.subtle.verify = Right }")

        assert "unusable" == verdict
        assert "lacks Ed25519" in found[0]
        assert "verified" == check(bundles[0])[0]


class TestTampering:
    """Whoever can change the file, and may even have the event key (then the end is written anew)."""

    @pytest.fixture(autouse=True)
    def _it_still_tells_right_from_wrong(self, bundles: list[bytes], check: Check) -> Iterator[None]:
        yield
        assert ("verified", []) == check(bundles[0])

    @pytest.mark.parametrize("reseal", [False, True])
    def test_no_line_can_be_changed_deleted_doubled_swapped_or_cut(
        self, whole: list[Line], check: Check, reseal: bool
    ) -> None:
        write = resealed if reseal else bundle_of
        green = []
        for place in range(0, len(whole) - 1 - reseal, 3):
            changes = {
                "deleted": [*whole[:place], *whole[place + 1 :]],
                "doubled": [*whole[: place + 1], *whole[place:]],
                "swapped": [*whole[:place], *whole[place : place + 2][::-1], *whole[place + 2 :]],
                "cut": whole[:place],
            }
            green += [
                (place, name)
                for name, lines in changes.items()
                if check(write(lines))[0] in ("verified", "unanchored")
            ]

        assert [] == green

    def test_no_byte_can_be_flipped(self, bundles: list[bytes], check: Check) -> None:
        bundle, draw = bundles[0], random.Random(1)
        green, start = [], 0
        for line in bundle.splitlines(keepends=True):
            for place in {*draw.sample(range(len(line)), 2), len(line) - 1}:
                changed = bytearray(bundle)
                changed[start + place] ^= 1 << draw.randrange(7)
                if check(bytes(changed))[0] in ("verified", "unanchored"):
                    green.append(start + place)
            start += len(line)

        assert [] == green

    def test_it_finds_what_the_program_finds(self, whole: list[Line], check: Check, tmp_path: Path) -> None:
        places = [place for place, line in enumerate(whole) if "event" in line]
        changes = []
        for place in places[::7]:
            body = body_of(whole[place])
            for edited, signer in (
                ({**body, "at": body["at"].replace("2026", "2027")}, ROOT),
                ({**body, "log": "other.example/log"}, FOREIGN),
                ({**body, "prev": "0" * 64}, FOREIGN),
                (body, FOREIGN),
                ({**body, "v": 2}, FOREIGN),
            ):
                changes.append([*whole[:place], signed(whole[place], edited, signer), *whole[place + 1 :]])

        found = [(check(resealed(lines))[0], by_program(resealed(lines), tmp_path)) for lines in changes]

        assert [] == [pair for pair in found if pair[0] != pair[1]]
        assert {"tampered"} == {pair[0] for pair in found}

    def test_a_filtered_bundle_without_a_record_or_proof_is_found(
        self, bundles: list[bytes], check: Check
    ) -> None:
        lines = lines_of(bundles[1])
        places = [place for place, line in enumerate(lines) if "event" in line and line["i"] > 2]
        dropped = [[*lines[:place], *lines[place + 2 :]] for place in places[:-1]]
        unproved = [[*lines[: place + 1], *lines[place + 2 :]] for place in places]

        verdicts = {check(resealed(each))[0] for each in (*dropped, *unproved)}

        assert {"tampered"} == verdicts


EVENT_KEY = FileSigner.from_seed(b"\x0a" * 32)
FOREIGN_KEY = base64.b64encode(FOREIGN.public_key).decode()
SALT, SIZE, DIGEST = b"\x01" * 32, 300, sha256(b"content").digest()
COMMITTED = {"scheme": "s1", "sha256": sha256(SALT + SIZE.to_bytes(8) + DIGEST).hexdigest(), "size": 512}
OPENING = {"salt": base64.b64encode(SALT).decode(), "size": SIZE, "sha256": DIGEST.hex()}


def told(topic: str, data: dict[str, Any], *places: int) -> Any:
    """A change of a history: the records at these places say something else."""

    def change(index: int, body: dict[str, Any]) -> None:
        if index in places:
            body |= {"t": topic, "data": data}

    return change


class TestWholeHistories:
    """Right in every signature and hash under another root key, which is pinned: what else must hold."""

    @pytest.fixture
    def both(self, check: Check, tmp_path: Path) -> Callable[[bytes], tuple[str, list[str]]]:
        def run(bundle: bytes) -> tuple[str, list[str]]:
            file = tmp_path / "bundle.jsonl"
            file.write_bytes(bundle)
            program = verify(file, Wanted(pinned=FOREIGN.public_key), jobs=1)
            verdict, found = check(bundle, FOREIGN_KEY)
            assert program["verdict"] == verdict
            assert len(program["findings"]) == len(found)
            return verdict, found

        return run

    def test_it_is_verified_under_its_own_root_alone(
        self, whole: list[Line], both: Any, check: Check
    ) -> None:
        assert ("verified", []) == both(forged(whole))
        assert "tampered" == check(forged(whole))[0]

    @pytest.mark.parametrize(
        ("topic", "data", "places", "verdict", "said"),
        [
            ("wait-token-discarded", {"wait": "none"}, (6,), "tampered", "never held"),
            ("wait-token-completed", {"wait": "one"}, (5, 6), "tampered", "second answer"),
            ("wait-token-completed", {}, (6,), "tampered", "names no wait"),
            ("completed", {}, (5,), "tampered", "follows the event that ended"),
            ("suspended", {}, (3,), "tampered", "doesn't begin with"),
            ("key-retired", {"kid": EVENT_KEY.kid.hex()}, (40,), "tampered", "doesn't certify"),
            ("key-retired", {"kid": "0" * 16}, (40,), "tampered", "without what it must hold"),
            (
                "key-revoked", {"kid": EVENT_KEY.kid.hex(), "since": "2026-12-01T00:00:00.000000Z"}, (50,),
                "policy", "is suspect",
            ),
        ],
    )  # fmt: skip
    def test_a_rule_that_is_broken_is_found(
        self, whole: list[Line], both: Any, topic: str, data: Any, places: Any, verdict: str, said: str
    ) -> None:
        found = both(forged(whole, told(topic, data, *places)))

        assert verdict == found[0]
        assert any(said in each for each in found[1])

    @pytest.mark.parametrize(
        ("opening", "verdict"),
        [
            (OPENING, "verified"),
            ({**OPENING, "size": 299}, "tampered"),
            ({**OPENING, "sha256": "0" * 64}, "tampered"),
            ({**OPENING, "size": -1}, "tampered"),
        ],
    )
    def test_an_opening_is_held_to_what_was_signed(
        self, whole: list[Line], both: Any, opening: dict[str, Any], verdict: str
    ) -> None:
        lines = lines_of(forged(whole, told("call-completed", {"op": "1", "output": COMMITTED}, 7)))

        assert verdict == both(resealed([*lines[:9], {"i": 7, "opening": opening}, *lines[9:]], EVENT_KEY))[0]

    @pytest.mark.parametrize(("ranges", "verdict"), [([[5, 6]], "verified"), ([[6, 9]], "tampered")])
    def test_a_purged_record_is_held_to_a_signed_purge(
        self, whole: list[Line], both: Any, ranges: list[list[int]], verdict: str
    ) -> None:
        lines = lines_of(forged(whole, told("purged", {"ranges": ranges}, 49)))
        leaf = sha256(b"\0" + base64.b64decode(lines[6]["event"]["payload"])).digest()
        stub = {"i": 5, "leaf": base64.b64encode(leaf).decode(), "purged": 49}

        assert verdict == both(resealed([*lines[:6], stub, *lines[7:]], EVENT_KEY))[0]
