"""Our log against Go's `golang.org/x/mod/sumdb`: notes, proofs, tiles. Debian: golang-golang-x-mod-dev."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from abeyance.audit.log import add_leaves
from abeyance.audit.merkle import consistency_proof, frontier_of, inclusion_proof, leaf_hash
from abeyance.audit.notes import Checkpoint, NoteKey, sign_note
from abeyance.crypto.signing import FileSigner
from tests.support.logs import CODEC, LOG_SIGNER
from tests.support.mirrors import mirror_runs
from tests.unit.audit.trees import subtrees_over

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("go") is None, reason="this machine lacks go"),
]
SIGNER = FileSigner.from_seed(b"\x03" * 32)
NAME = "log.example.com/runs"
PROGRAM = Path(__file__).parent / "check.go"


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("go") / "check"
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": "/usr/share/gocode",
        "GOFLAGS": "",
        "GOCACHE": str(program.parent),
    }
    subprocess.run(["go", "build", "-o", str(program), str(PROGRAM)], check=True, env=environment)
    return program


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def log_of(size: int) -> dict[str, object]:
    """A log of so many records, with every proof, its tiles and its checkpoint."""
    bodies = [b'{"n":%d}' % number for number in range(size)]
    leaves = [leaf_hash(body) for body in bodies]
    subtrees = subtrees_over(leaves)
    checkpoint = Checkpoint(NAME, size, frontier_of(size, subtrees).root)
    return {
        "key": NoteKey(NAME, SIGNER.public_key).text,
        "note": sign_note(checkpoint.text, NAME, SIGNER),
        "bodies": [text(body) for body in bodies],
        "inclusion": [
            [text(each) for each in inclusion_proof(index, size, subtrees)] for index in range(size)
        ],
        "roots": [text(frontier_of(older, subtrees).root) for older in range(1, size)],
        "consistency": [
            [text(each) for each in consistency_proof(older, size, subtrees)] for older in range(1, size)
        ],
        "tiles": {f"{row.level}/{row.number}": text(row.hashes) for row in add_leaves({}, 0, leaves)},
    }


class TestGo:
    @pytest.mark.parametrize("size", [1, 2, 6, 64, 257, 600])
    def test_it_accepts_note_proofs_and_tiles(self, check: Path, size: int) -> None:
        done = subprocess.run(
            [check], input=json.dumps(log_of(size)), capture_output=True, text=True, check=False
        )

        assert (0, f"ok {size}\n") == (done.returncode, done.stdout), done.stderr

    @pytest.mark.parametrize("part", ["inclusion", "consistency", "tiles", "note", "roots"])
    def test_it_refuses_a_changed_one(self, check: Path, part: str) -> None:
        log = log_of(6)
        changed = json.dumps(log[part]).replace(json.dumps(log[part])[-8:-6], "Zz")
        log[part] = json.loads(changed)

        done = subprocess.run([check], input=json.dumps(log), capture_output=True, text=True, check=False)

        assert 0 != done.returncode


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    mirror_runs(folder, runs=90)
    return folder / "mirror"


class TestMirror:
    """Go's tlog reads the mirror's folder as it lies there, tile by tile."""

    def test_it_finds_every_record_under_the_checkpoint(self, check: Path, mirror: Path) -> None:
        done = read_by_go(check, mirror)

        assert (0, "ok 543\n") == (done.returncode, done.stdout), done.stderr

    @pytest.mark.parametrize("name", ["tile/0/000", "tile/0/002.p/31", "tile/entries/001", "checkpoint"])
    def test_it_refuses_a_changed_file(self, check: Path, mirror: Path, tmp_path: Path, name: str) -> None:
        shutil.copytree(mirror, tmp_path / "changed")
        file = tmp_path / "changed" / name
        raw = file.read_bytes()
        file.write_bytes(raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:])

        assert 0 != read_by_go(check, tmp_path / "changed").returncode


def read_by_go(check: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    key = NoteKey(CODEC.origin, LOG_SIGNER.public_key).text
    return subprocess.run([check, str(folder), key], capture_output=True, text=True, check=False)
