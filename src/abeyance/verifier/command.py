"""The command: `abeyance-verify.py BUNDLE --root-key KEY`, and the report that it prints."""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abeyance.verifier.bundle import BundleError, open_bundle
from abeyance.verifier.findings import CODES, MEANINGS, NOT_PROVEN, Findings
from abeyance.verifier.pool import signature_checks
from abeyance.verifier.signatures import read_public_key, read_witness
from abeyance.verifier.verification import Verification, Wanted

REQUIREMENTS = ("complete", "answers", "witness")
_SHOWN = 100


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    command = argparse.ArgumentParser(
        prog="abeyance-verify",
        description="Verify exported records of abeyance, offline: needs the file and the log's root key.",
        epilog="Exit codes: "
        + "; ".join(f"{code} {name}: {MEANINGS[name]}" for name, code in CODES.items())
        + ".",
    )
    command.add_argument("bundle", type=Path, help="the exported file, plain or gzipped")
    command.add_argument(
        "--root-key", metavar="KEY", help="the log's root key from elsewhere: a PEM file, or base64"
    )
    command.add_argument(
        "--known-checkpoint", metavar="FILE", type=Path, action="append", default=[],
        help="a checkpoint from an earlier audit; may be given again",
    )  # fmt: skip
    command.add_argument(
        "--witness",
        metavar="KEY",
        action="append",
        default=[],
        help="a witness's verifier key, name+id+base64",
    )
    command.add_argument(
        "--require", metavar="WHAT", action="append", default=[], choices=REQUIREMENTS,
        help=f"what must be there besides: {', '.join(REQUIREMENTS)}",
    )  # fmt: skip
    command.add_argument(
        "--fast", action="store_true", help="tree, chains and checkpoint only, no signature of events"
    )
    command.add_argument("--jobs", metavar="N", type=int, default=1, help="processes that check signatures")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    command.add_argument(
        "--save-checkpoint", metavar="FILE", type=Path, help="keep the checkpoint for the next audit"
    )
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify, print the report, and return the exit code."""
    given = parser().parse_args(arguments)
    try:
        wanted = _wanted(given)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return CODES["unusable"]
    report = verify(given.bundle, wanted, jobs=given.jobs)
    # Before anything is printed: whoever reads only the first line closes the pipe.
    if given.save_checkpoint is not None and report["verdict"] in ("verified", "incomplete"):
        given.save_checkpoint.write_text(report["checkpoint"], "utf-8")
    print(json.dumps(report, indent=2, ensure_ascii=True) if given.json else _text(report))
    return int(report["exitCode"])


def verify(bundle: Path, wanted: Wanted, *, jobs: int = 1) -> dict[str, Any]:
    """Verify a bundle: the report as JSON, with `verdict`, `exitCode`, counts, `findings`, `notProven`."""
    findings = Findings()
    with signature_checks(findings, jobs) as checks:
        verification = Verification(wanted, checks, findings)
        try:
            with open_bundle(bundle) as reading:
                verification.run(reading)
        except BundleError as error:
            findings.add("unusable", "bundle", str(error))
    return _report(verification, checks.checked)


def _wanted(given: argparse.Namespace) -> Wanted:
    return Wanted(
        pinned=None if given.root_key is None else read_public_key(_text_of(given.root_key)),
        kept=[file.read_text("utf-8") for file in given.known_checkpoint],
        witnesses=dict(read_witness(_text_of(each)) for each in given.witness),
        require=frozenset(given.require),
        fast=given.fast,
    )


def _text_of(key: str) -> str:
    """The key itself, or what the file with this name holds. Raises `ValueError` if it can be neither."""
    file = Path(key)
    if len(key) < 4_096 and file.is_file():
        return file.read_text("utf-8")
    if re.fullmatch(r"[A-Za-z0-9+/=]{44}|.*\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+|-----BEGIN.*", key, re.DOTALL):
        return key
    raise ValueError(f"there is no file {key!r}, and it is no key in base64 either")


def _report(verification: Verification, checked: int) -> dict[str, Any]:
    findings = verification.findings
    verdict = findings.verdict
    unread = ["signatures of events and the rules of runs, by --fast"] if verification.wanted.fast else []
    if verification.filtered:
        unread.append(
            "records outside the bundle's filter, and that a run without its end has no later records"
        )
    unread += ["time stamps of an authority (RFC 3161)"]
    return {
        "verdict": verdict,
        "exitCode": CODES[verdict],
        "meaning": MEANINGS[verdict],
        "log": verification.header.get("origin"),
        "size": verification.header.get("size"),
        "filter": verification.header.get("filter"),
        "records": verification.records,
        "purged": verification.stubs,
        "openings": verification.openings,
        "signatures": checked,
        "streams": verification.runs.count,
        "unfinishedRuns": verification.runs.unfinished,
        "rootKeyPinned": verification.wanted.pinned is not None,
        "witnesses": verification.checkpoints.witnessed,
        "checkpoint": verification.checkpoints.note,
        "findings": [
            {name: value for name, value in _members(finding) if value is not None}
            for finding in findings.found
        ],
        "notChecked": unread,
        "notProven": list(NOT_PROVEN),
    }


def _members(finding: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(finding, name)) for name in finding.__slots__]


def _text(report: dict[str, Any]) -> str:
    lines = [f"{report['verdict'].upper()}: {report['meaning']}."]
    if report["log"] is not None:
        lines.append(
            f"{report['records']} records of {report['log']} at size {report['size']}, "
            f"{report['streams']} streams, {report['signatures']} signatures checked, "
            f"{report['purged']} records purged."
        )
    found = report["findings"]
    lines += [f"  {_line(each)}" for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        kinds = Counter(each["check"] for each in found)
        lines.append(
            f"  … {len(found)} findings in all: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}"
        )
    if report["log"] is None:
        return "\n".join(lines)
    lines += ["Not checked:", *(f"  - {each}" for each in report["notChecked"])]
    lines += ["What this does not prove:", *(f"  - {each}" for each in report["notProven"])]
    return "\n".join(lines)


def _line(finding: dict[str, Any]) -> str:
    where = f"record {finding['index']}: " if "index" in finding else ""
    run = f" (event {finding['version']} of {finding['run']})" if finding.get("run") else ""
    return f"[{finding['verdict']}, {finding['check']}] {where}{finding['problem']}{run}"


if __name__ == "__main__":
    sys.exit(main())
