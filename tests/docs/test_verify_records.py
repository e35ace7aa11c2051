"""`docs/how-to/verify-records.md`: its commands are typed on a real export, its table is the verifier's."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest

from abeyance import __version__
from abeyance.crypto.signing import public_pem
from abeyance.verifier.assembling import assemble
from abeyance.verifier.findings import CODES, NOT_PROVEN
from tests.support.bundles import export
from tests.support.pages import DOCS
from tests.unit.projections.histories import ROOT

PAGE = (DOCS / "how-to" / "verify-records.md").read_text("utf-8")
QUICK, BY_HAND = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export(tmp_path_factory.mktemp("log"), runs=2)[0]


@pytest.fixture
def auditor(tmp_path: Path, bundle: bytes) -> Path:
    """An auditor's folder: the bundle, the root key, the verifier."""
    (tmp_path / "log.abeyance.jsonl").write_bytes(bundle)
    (tmp_path / "root.pub").write_bytes(public_pem(ROOT.public_key))
    (tmp_path / "abeyance-verify.py").write_text(assemble(__version__), "utf-8")
    return tmp_path


def shell(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-e", "-u", "-o", "pipefail", "-c", code.replace("python3 ", f"{sys.executable} ")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


class TestPage:
    def test_the_check_is_green(self, auditor: Path) -> None:
        done = shell(auditor, QUICK)

        assert (0, True) == (done.returncode, done.stdout.startswith("VERIFIED")), done.stderr

    def test_the_codes_are_those_of_the_verifier(self) -> None:
        rows = re.findall(r"^\| (\d) \| ([a-z]+) \|", PAGE, re.MULTILINE)

        assert {name: code for name, code in CODES.items()} == {name: int(code) for code, name in rows}

    def test_it_says_what_is_not_proven(self) -> None:
        listed = PAGE.split("## What a green result doesn't prove")[1]

        assert [f"- {each[0].upper()}{each[1:]}." for each in NOT_PROVEN] == re.findall(
            r"^- .*", listed, re.MULTILINE
        )


@pytest.mark.system
class TestByHand:
    """With jq, openssl and sha256sum."""

    def test_a_record_is_verified_without_any_tool_of_ours(self, auditor: Path) -> None:
        done = shell(auditor, BY_HAND)

        assert "Signature Verified Successfully" in done.stdout, done.stderr
        lines = (auditor / "log.abeyance.jsonl").read_bytes().splitlines()
        assert done.stdout.splitlines()[-1].split()[0].encode() in base64.b64decode(
            re.findall(rb'"payload":"([^"]+)"', lines[5])[0]
        )

    def test_a_changed_record_is_not(self, auditor: Path) -> None:
        file = auditor / "log.abeyance.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        payload = re.findall(rb'"payload":"([^"]+)"', lines[4])[0]
        changed = base64.b64encode(base64.b64decode(payload).replace(b"2026", b"2027", 1))
        file.write_bytes(b"".join([*lines[:4], lines[4].replace(payload, changed), *lines[5:]]))

        done = shell(auditor, BY_HAND)

        assert "Signature Verified Successfully" not in done.stdout
        assert 0 != done.returncode
