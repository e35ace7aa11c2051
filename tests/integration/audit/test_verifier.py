"""The verifier on bundles of a journal: what is whole is verified, whatever is tampered with is not."""

import base64
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from abeyance.audit.export import Filter
from abeyance.audit.notes import Checkpoint, sign_note
from abeyance.verifier.command import main, verify
from abeyance.verifier.hashing import Tree, hash_leaf
from abeyance.verifier.verification import Wanted
from tests.support.bundles import (
    FIRST_RUN,
    FOREIGN,
    LOG_KEY,
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
from tests.unit.projections.histories import ORIGIN, ROOT, START


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The whole log, one run of it, and a time of it."""
    second = timedelta(seconds=1)
    return export(
        tmp_path_factory.mktemp("log"),
        Filter(),
        Filter(run=FIRST_RUN),
        Filter(since=START, until=START + second),
    )


@pytest.fixture(scope="module")
def whole(bundles: list[bytes]) -> list[Line]:
    return lines_of(bundles[0])


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """Verify a bundle's bytes by the pinned root key: the report."""

    def run(bundle: bytes, **wanted: Any) -> dict[str, Any]:
        file = tmp_path / "bundle.abeyance.jsonl"
        file.write_bytes(bundle)
        jobs = wanted.pop("jobs", 1)
        return verify(file, Wanted(**{"pinned": ROOT.public_key, **wanted}), jobs=jobs)

    return run


def problems(report: dict[str, Any]) -> list[str]:
    return [f"{finding['check']}: {finding['problem']}" for finding in report["findings"]]


def events(lines: Sequence[Line]) -> list[int]:
    return [place for place, line in enumerate(lines) if "event" in line]


class TestWholeBundles:
    def test_everything_that_was_exported_is_verified(self, bundles: list[bytes], check: Any) -> None:
        report = check(bundles[0])

        assert ("verified", 0, []) == (report["verdict"], report["exitCode"], problems(report))
        assert (51, 51, 9, 52) == (
            report["records"],
            report["size"],
            report["streams"],
            report["signatures"],
        )

    def test_several_processes_find_the_same(
        self, bundles: list[bytes], whole: list[Line], check: Any
    ) -> None:
        wrong = resealed([*whole[:9], signed(whole[9], body_of(whole[9]), FOREIGN), *whole[10:]])

        assert check(bundles[0]) == check(bundles[0], jobs=2)
        assert check(wrong)["findings"] == check(wrong, jobs=2)["findings"]

    def test_a_gzipped_bundle_is_verified(self, bundles: list[bytes], check: Any) -> None:
        assert "verified" == check(gzip.compress(bundles[0]))["verdict"]

    def test_without_a_root_key_from_elsewhere_nothing_is_green(
        self, bundles: list[bytes], check: Any
    ) -> None:
        report = check(bundles[0], pinned=None)

        assert ("unanchored", 3) == (report["verdict"], report["exitCode"])

    def test_another_root_key_is_a_finding(self, bundles: list[bytes], check: Any) -> None:
        report = check(bundles[0], pinned=FOREIGN.public_key)

        assert "tampered" == report["verdict"]
        assert "key: this log was opened under another root key than the pinned one" in problems(report)

    def test_fast_checks_no_signatures_of_events_and_says_so(
        self, bundles: list[bytes], whole: list[Line], check: Any
    ) -> None:
        report = check(bundles[0], fast=True)

        assert ("verified", 4) == (report["verdict"], report["signatures"])
        assert "signatures of events and the rules of runs, by --fast" in report["notChecked"]


class TestFilteredBundles:
    def test_a_runs_bundle_is_verified(self, bundles: list[bytes], check: Any) -> None:
        report = check(bundles[1])

        assert ("verified", 9, 2) == (report["verdict"], report["records"], report["streams"])
        assert {"run": str(FIRST_RUN)} == report["filter"]

    def test_a_bundle_of_a_time_is_verified(self, bundles: list[bytes], check: Any) -> None:
        report = check(bundles[2])

        assert "verified" == report["verdict"]
        assert any("outside the bundle's filter" in each for each in report["notChecked"])

    def test_who_requires_the_whole_log_is_told_that_it_is_not_here(
        self, bundles: list[bytes], check: Any
    ) -> None:
        report = check(bundles[1], require=frozenset({"complete"}))

        assert ("incomplete", 5) == (report["verdict"], report["exitCode"])

    def test_a_record_without_its_proof_is_found(self, bundles: list[bytes], check: Any) -> None:
        lines = lines_of(bundles[1])
        place = next(place for place, line in enumerate(lines) if "proof" in line)

        assert "tampered" == check(resealed([*lines[:place], *lines[place + 1 :]]))["verdict"]

    def test_a_record_that_is_left_out_of_the_middle_is_found(self, bundles: list[bytes], check: Any) -> None:
        lines = lines_of(bundles[1])
        place = next(p for p in events(lines) if body_of(lines[p])["t"] == "call-paused")

        report = check(resealed([*lines[:place], *lines[place + 2 :]]))

        assert any(problem.startswith("chain:") for problem in problems(report))

    def test_the_beginning_of_a_run_cannot_be_left_out(self, bundles: list[bytes], check: Any) -> None:
        lines = lines_of(bundles[1])
        place = next(p for p in events(lines) if body_of(lines[p])["t"] == "started")

        report = check(resealed([*lines[:place], *lines[place + 2 :]]))

        assert "chain: the events before this one are missing" in problems(report)


class TestTampering:
    """Whoever can change the file, and may even have the event key (then the end is written anew)."""

    @pytest.mark.parametrize("reseal", [False, True])
    def test_no_line_can_be_changed_deleted_doubled_swapped_or_cut(
        self, whole: list[Line], check: Any, reseal: bool
    ) -> None:
        write = resealed if reseal else bundle_of
        green = []
        for place in range(len(whole) - reseal):
            changes = {
                "deleted": [*whole[:place], *whole[place + 1 :]],
                "doubled": [*whole[: place + 1], *whole[place:]],
                "swapped": [*whole[:place], *whole[place : place + 2][::-1], *whole[place + 2 :]],
                "cut": whole[:place],
                "two dropped": [*whole[:place], *whole[place + 2 :]],
            }
            for name, lines in changes.items():
                if list(lines) == whole or (reseal and [x for x in lines if "end" not in x] == whole[:-1]):
                    continue
                report = check(write(lines))
                if report["exitCode"] in (0, 3):
                    green.append((place, name))

        assert [] == green

    def test_no_byte_can_be_flipped(self, bundles: list[bytes], check: Any) -> None:
        """A byte of each line, of each class: digits, letters, marks, the line's end."""
        bundle, draw = bundles[0], random.Random(1)
        green, start = [], 0
        for line in bundle.splitlines(keepends=True):
            for place in {*draw.sample(range(len(line)), min(6, len(line))), len(line) - 1}:
                changed = bytearray(bundle)
                changed[start + place] ^= 1 << draw.randrange(7)
                if check(bytes(changed))["exitCode"] in (0, 3):
                    green.append(start + place)
            start += len(line)

        assert [] == green

    def test_an_edited_event_is_found_whoever_signs_it(self, whole: list[Line], check: Any) -> None:
        for place in events(whole):
            body = body_of(whole[place])
            body["at"] = body["at"].replace("2026", "2027")
            signers = {True: ROOT, False: FOREIGN}
            for own, signer in signers.items():
                edited = signed(whole[place], body, signer if own else FOREIGN)
                report = check(resealed([*whole[:place], edited, *whole[place + 1 :]]))
                assert (1, True) == (report["exitCode"], any(p.startswith("tree:") for p in problems(report)))

    def test_an_event_of_another_log_is_found(self, whole: list[Line], check: Any) -> None:
        place = events(whole)[10]
        body = {**body_of(whole[place]), "log": "other.example/log"}

        report = check(resealed([*whole[:place], signed(whole[place], body), *whole[place + 1 :]]))

        assert "body: it is of another log" in problems(report)

    def test_an_event_spliced_in_from_another_run_is_found(self, whole: list[Line], check: Any) -> None:
        first, second = (p for p in events(whole) if body_of(whole[p])["t"] == "call-paused" and p < 16)
        lines = list(whole)
        lines[first] = {**whole[second], "i": whole[first]["i"]}

        report = check(resealed(lines))

        assert 1 == report["exitCode"]
        assert any(problem.startswith("chain:") for problem in problems(report))

    def test_a_bundle_that_brings_its_own_keys_is_found(self, whole: list[Line], check: Any) -> None:
        """All signed anew by another root, event and log key: right in itself, but not the pinned log."""
        report = check(forged(whole))
        unpinned = check(forged(whole), pinned=None)

        assert (1, 3) == (report["exitCode"], unpinned["exitCode"])

    def test_every_finding_is_listed(self, whole: list[Line], check: Any) -> None:
        lines = list(whole)
        for place in (10, 20, 30):
            lines[place] = signed(whole[place], {**body_of(whole[place]), "log": "other.example/log"})

        found = [
            finding["index"] for finding in check(resealed(lines))["findings"] if finding["check"] == "body"
        ]

        assert [9, 19, 29] == found


def _checkpoint_at(lines: list[Line], size: int) -> str:
    tree = Tree()
    for place in events(lines)[:size]:
        tree.append(hash_leaf(base64.b64decode(lines[place]["event"]["payload"])))
    return sign_note(Checkpoint(ORIGIN, size, tree.root()).text, ORIGIN, LOG_KEY)


class TestKnownCheckpoints:
    def test_a_log_that_grew_from_it_is_verified(
        self, bundles: list[bytes], whole: list[Line], check: Any
    ) -> None:
        kept = [_checkpoint_at(whole, size) for size in (1, 17, 51)]

        assert "verified" == check(bundles[0], kept=kept)["verdict"]

    def test_a_log_that_is_shorter_than_it_has_diverged(self, bundles: list[bytes], check: Any) -> None:
        kept = sign_note(Checkpoint(ORIGIN, 60, bytes(32)).text, ORIGIN, LOG_KEY)
        report = check(bundles[0], kept=[kept])

        assert ("diverged", 4) == (report["verdict"], report["exitCode"])

    def test_another_history_has_diverged(self, bundles: list[bytes], check: Any) -> None:
        kept = sign_note(Checkpoint(ORIGIN, 17, bytes(32)).text, ORIGIN, LOG_KEY)

        assert "diverged" == check(bundles[0], kept=[kept])["verdict"]

    def test_a_filtered_bundle_without_a_proof_from_it_is_incomplete(
        self, bundles: list[bytes], whole: list[Line], check: Any
    ) -> None:
        assert "incomplete" == check(bundles[1], kept=[_checkpoint_at(whole, 17)])["verdict"]


class TestCommand:
    def test_it_exits_with_the_verdict_and_says_what_it_does_not_prove(
        self, bundles: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "log.jsonl"
        file.write_bytes(bundles[0])

        code = main([str(file), "--root-key", ROOT_KEY])

        said = capsys.readouterr().out
        assert 0 == code
        assert said.startswith("VERIFIED: ")
        assert "What this does not prove:" in said

    @pytest.mark.parametrize(
        "content",
        [b"", b"\n", b"{}\n", b"not json\n", b'{"abeyance-bundle":2}\n', b"\x1f\x8bxx", b"[" * 5_000 + b"\n"],
    )
    def test_what_is_no_bundle_is_unusable(
        self, tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "log.jsonl"
        file.write_bytes(content)

        assert 2 == main([str(file), "--root-key", ROOT_KEY, "--json"])
        assert "unusable" == json.loads(capsys.readouterr().out)["verdict"]

    def test_a_saved_checkpoint_is_held_to_the_next_bundle(self, tmp_path: Path) -> None:
        """And is saved whether or not anybody reads the report."""
        older, newer = tmp_path / "older.jsonl", tmp_path / "newer.jsonl"
        for file, runs in ((older, 1), (newer, 2)):
            folder = tmp_path / f"log-{runs}"
            folder.mkdir()
            file.write_bytes(export(folder, runs=runs)[0])
        kept, later = tmp_path / "kept", tmp_path / "later"
        command = f"{sys.executable} -m abeyance.verifier.command"
        unread = f"{command} {older} --root-key={ROOT_KEY} --save-checkpoint={kept} | true"
        subprocess.run(["bash", "-c", unread], check=False, stderr=subprocess.DEVNULL)
        pinned = ["--root-key", ROOT_KEY]

        assert 0 == main([str(newer), *pinned, f"--known-checkpoint={kept}", f"--save-checkpoint={later}"])
        assert 4 == main([str(older), *pinned, f"--known-checkpoint={later}"])

    def test_a_file_that_is_not_there_is_unusable(self, tmp_path: Path) -> None:
        assert 2 == main([str(tmp_path / "none"), "--root-key", ROOT_KEY])

    def test_a_key_that_is_none_is_refused(self, tmp_path: Path) -> None:
        assert 2 == main([str(tmp_path / "none"), "--root-key", "key"])

    def test_it_opens_no_socket(self, bundles: list[bytes], tmp_path: Path) -> None:
        """Run in a process in which a socket can't even be made."""
        file = tmp_path / "log.jsonl"
        file.write_bytes(bundles[0])
        program = (
            "import sys, _socket\n"
            "def refuse(*_): sys.exit('a socket was made')\n"
            "sys.addaudithook(lambda name, _: name.startswith('socket.') and refuse())\n"
            "from abeyance.verifier.command import main\n"
            f"sys.exit(main([{str(file)!r}, '--root-key', {ROOT_KEY!r}]))\n"
        )

        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

        assert (0, "") == (done.returncode, done.stderr)
