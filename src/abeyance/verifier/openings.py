"""Openings: the exact size and digest of a content, held to the commitment that was signed."""

from hashlib import sha256
from typing import Any

from abeyance.verifier.findings import Findings
from abeyance.verifier.records import BodyError, Record
from abeyance.verifier.signatures import decode


def check_opening(findings: Findings, index: int, record: Record | None, opening: dict[str, Any]) -> None:
    """Whether salt, size and digest are those that the record at `index` commits to."""
    if record is None:
        findings.add("tampered", "opening", "an opening for a record that has no content here", index=index)
        return
    try:
        salt, size, digest = decode(opening["salt"]), int(opening["size"]), bytes.fromhex(opening["sha256"])
        committed = sha256(salt + size.to_bytes(8) + digest).hexdigest()
        commitments = [
            value for value in record.fields().values() if isinstance(value, dict) and "scheme" in value
        ]
        agrees = any(
            each.get("sha256") == committed and each.get("size") == max(1, -(-size // 256)) * 256
            for each in commitments
        )
    except (BodyError, KeyError, TypeError, ValueError, OverflowError):
        agrees = False
    if not agrees:
        findings.add("tampered", "opening", "size and digest aren't those that were signed", index=index)
