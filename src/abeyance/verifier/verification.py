"""The checks of a bundle, in one pass, in memory that doesn't grow with it. None stops at the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from abeyance.verifier.bundle import BundleError, Line, Reading, Signed, read_envelope
from abeyance.verifier.checkpoints import Checkpoints
from abeyance.verifier.findings import Findings
from abeyance.verifier.hashing import Tree, follow_inclusion, hash_leaf
from abeyance.verifier.keys import KEY_TOPICS, Keys
from abeyance.verifier.openings import check_opening
from abeyance.verifier.purges import Purges
from abeyance.verifier.records import (
    BODY_VERSION,
    MAX_BODY_BYTES,
    BodyError,
    Record,
    is_canonical,
    parse_json,
    read_body,
)
from abeyance.verifier.runs import Runs
from abeyance.verifier.signatures import BUNDLE_TYPE, EVENT_TYPE, decode, signed_bytes

Check = Callable[[bytes, bytes, bytes, int, str, int], None]
"""Verifies a signature now or later: public key, signature, message, then the record's index, run and
version.
"""


@dataclass(slots=True)
class Wanted:
    """What the caller holds the bundle to. `pinned` is the root key from elsewhere (32 raw bytes), `kept`
    are checkpoints from earlier audits, `witnesses` keys by name; `fast` leaves out signatures of events and
    the rules.
    """

    pinned: bytes | None = None
    kept: Sequence[str] = ()
    witnesses: dict[str, bytes] = field(default_factory=dict)
    require: frozenset[str] = frozenset()
    fast: bool = False


class Verification:
    """One bundle's verification."""

    def __init__(self, wanted: Wanted, check_signature: Check, findings: Findings) -> None:
        self.findings = findings
        self.wanted = wanted
        self.keys = Keys(findings, wanted.pinned)
        self.checkpoints = Checkpoints(findings, wanted.kept, wanted.witnesses)
        self.purges = Purges(findings)
        self.runs = Runs(findings, whole=True, rules=not wanted.fast)
        self.header: dict[str, Any] = {}
        self.records = 0
        self.stubs = 0
        self.openings = 0
        self._check_signature = check_signature
        self._tree = Tree()
        self._newest = -1
        self._unproved: dict[int, bytes] = {}
        self._content: tuple[int, Record] | None = None
        self._contents = 0
        self._ended = False

    @property
    def filtered(self) -> bool:
        """Whether the bundle holds only some of the log's records."""
        return self.header.get("filter") is not None

    def run(self, reading: Reading) -> None:
        """Check everything."""
        try:
            lines = reading.lines()
            self._begin(next(lines, None))
            for line in lines:
                self._take(line, reading)
        except BundleError as error:
            self.findings.add("unusable", "bundle", str(error))
        if self.header:
            self._finish()

    def _begin(self, line: object) -> None:
        members = line.members if isinstance(line, Line) else {}
        if members.get("abeyance-bundle") != 1:
            raise BundleError("this isn't a bundle of abeyance, or one of a newer release")
        origin, size, start = members.get("origin"), members.get("size"), members.get("from")
        if not isinstance(origin, str) or type(size) is not int or type(start) is not int:
            raise BundleError("the first line names no origin, size and beginning")
        if start < 0 or size < start or not isinstance(members.get("filter"), dict | None):
            raise BundleError("the first line's size and beginning don't fit")
        self.header = members
        self.checkpoints.begin(origin, size)
        whole_streams = not self.filtered or members["filter"].keys() == {"run"}
        if start or not whole_streams:
            self.runs = Runs(self.findings, whole=False, rules=not self.wanted.fast)

    def _take(self, line: Line | tuple[int, Signed], reading: Reading) -> None:
        if self._ended:
            raise BundleError(f"line {reading.number} stands after the end")
        if not isinstance(line, Line):
            if self.checkpoints.note is not None:
                self.findings.add("tampered", "bundle", "it stands after the checkpoint", index=line[0])
            self._take_event(*line)
        elif "i" in line.members:
            self._take_about(line)
        else:
            self._take_frame(line, reading)

    def _take_about(self, line: Line) -> None:
        """A line about one record."""
        match line.members:
            case {"i": int(index), "leaf": str(leaf), "purged": int(purge)}:
                self._take_stub(index, _hash(leaf, line), purge)
            case {"i": int(index), "proof": list(proof)}:
                self._take_proof(index, [_hash(each, line) for each in proof])
            case {"i": int(index), "opening": dict(opening)}:
                self._take_opening(index, opening)
            case _:
                self._warn(line)

    def _take_frame(self, line: Line, reading: Reading) -> None:
        match line.members:
            case {"frontier": list(roots)}:
                self._take_frontier([_hash(each, line) for each in roots])
            case {"consistency": {"from": int(older), "to": int(newer), "proof": list(proof)}}:
                self.checkpoints.take_proof(older, newer, [_hash(each, line) for each in proof])
            case {"checkpoint": str(note)}:
                self.checkpoints.take(note, self.keys.log_keys())
            case {"end": envelope}:
                self._take_end(read_envelope(envelope, f"line {line.number}"), reading)
            case {"abeyance-bundle": _}:
                raise BundleError(f"line {line.number} begins a second bundle")
            case _:
                self._warn(line)

    def _warn(self, line: Line) -> None:
        self.findings.add("warning", "bundle", f"line {line.number} is of a kind that isn't known")

    def _take_frontier(self, roots: list[bytes]) -> None:
        if self.records or self.stubs or self.filtered:
            raise BundleError("a frontier stands before the records of a bundle that is whole from there on")
        try:
            self._tree = Tree(self.header["from"], roots)
        except ValueError as error:
            raise BundleError(str(error)) from None
        self.checkpoints.pass_size(self._tree)

    def _take_event(self, index: int, signed: Signed) -> None:
        self.records += 1
        leaf = hash_leaf(signed.body)
        self._place(index, leaf)
        try:
            record = read_body(signed.body)
        except BodyError as error:
            self.findings.add("tampered", "body", str(error), index=index)
            return
        if record.v != BODY_VERSION:
            problem = f"its body has version {record.v}: a newer release of this program reads it"
            self.findings.add("unusable", "body", problem, index=index)
            return
        self._check_body(index, signed, record)
        self.runs.take(record, leaf, index)
        if not self.wanted.fast or record.topic in KEY_TOPICS:
            self._check_signed(index, signed, record)
        if record.topic in KEY_TOPICS:
            self.keys.take(index, record)
        elif record.topic == "purged":
            self.purges.take(index, record)
        elif b'"scheme"' in record.data:
            self._contents += 1
            self._content = (index, record)

    def _check_body(self, index: int, signed: Signed, record: Record) -> None:
        def wrong(problem: str, verdict: str = "tampered") -> None:
            self.findings.add(verdict, "body", problem, index=index, run=record.run, version=record.version)

        if record.log != self.header["origin"]:
            wrong("it is of another log")
        if signed.keyid != record.kid:
            wrong("the envelope and the signed body name different keys")
        if signed.kind != EVENT_TYPE:
            wrong("the envelope's type is not an event's")
        if len(signed.body) > MAX_BODY_BYTES:
            wrong(f"the body is over {MAX_BODY_BYTES} bytes")
        if not self.wanted.fast and not is_canonical(record):
            wrong("the body isn't written in its canonical form", "warning")

    def _check_signed(self, index: int, signed: Signed, record: Record) -> None:
        if record.topic == "log-opened":
            self.keys.root_of(record)
        public = self.keys.signer(record, index)
        if public is None:
            self.findings.add(
                "tampered", "signature", "signed by a key that the log doesn't certify for this place",
                index=index, run=record.run, version=record.version,
            )  # fmt: skip
            return
        message = signed_bytes(signed.kind, signed.body)
        self._check_signature(public, signed.signature, message, index, record.run, record.version)

    def _take_opening(self, index: int, opening: dict[str, Any]) -> None:
        """It stands after the record whose content it opens."""
        there = self._content is not None and self._content[0] == index
        check_opening(self.findings, index, self._content[1] if there and self._content else None, opening)
        self.openings += there
        self._content = None

    def _take_stub(self, index: int, leaf: bytes, purge: int) -> None:
        self.stubs += 1
        self._place(index, leaf)
        self.runs.purged.add(leaf.hex())
        self.purges.expect(index, purge)

    def _place(self, index: int, leaf: bytes) -> None:
        """A whole bundle's records come without a gap; a filtered one's in order, each with a proof."""
        if self.filtered:
            if index <= self._newest:
                self.findings.add("tampered", "tree", "it doesn't come in the log's order", index=index)
            self._newest = index
            self._unproved[index] = leaf
            return
        if index != self._tree.size:
            self.findings.add(
                "tampered", "tree", f"it stands where record {self._tree.size} belongs", index=index
            )
        self._tree.append(leaf)
        self.checkpoints.pass_size(self._tree)

    def _take_proof(self, index: int, proof: list[bytes]) -> None:
        leaf = self._unproved.pop(index, None)
        if leaf is None:
            self.findings.add("tampered", "tree", "a proof for a record that isn't here", index=index)
            return
        root = follow_inclusion(leaf, index, self.header["size"], proof)
        self.checkpoints.expect_root(root, index)

    def _take_end(self, signed: Signed, reading: Reading) -> None:
        self._ended = True
        said = _end_of(signed)
        facts = {
            "filter": self.header.get("filter"),
            "lines": reading.number - 1,
            "log": self.header["origin"],
            "sha256": reading.digest.hexdigest(),
            "size": self.header["size"],
        }
        different = sorted(name for name in facts if said.get(name) != facts[name])
        if different:
            self.findings.add(
                "tampered", "bundle", f"the end says something else of its {', '.join(different)}"
            )
        public = self.keys.event_key(signed.keyid)
        if public is None:
            self.findings.add("tampered", "bundle", "the end is signed by a key that the log doesn't certify")
        else:
            self._check_signature(public, signed.signature, signed_bytes(BUNDLE_TYPE, signed.body), -1, "", 0)

    def _finish(self) -> None:
        if not self._ended:
            self.findings.add("tampered", "bundle", "the bundle has no end: it was cut off")
        size = self.header["size"]
        if not self.filtered and self._tree.size != size:
            self.findings.add("tampered", "tree", f"{self._tree.size} records of {size} are here")
        for index in self._unproved:
            self.findings.add("tampered", "tree", "a record without its proof", index=index)
        self.checkpoints.finish(None if self.filtered else self._tree.root())
        self.purges.finish()
        for kid, since in sorted(self.keys.suspects().items()):
            self.findings.add(
                "policy", "key", f"key {kid} was revoked: what it signed since {since} is suspect"
            )
        if "complete" in self.wanted.require and (self.filtered or self.header["from"]):
            self.findings.add("incomplete", "bundle", "the bundle holds only a part of the log")
        if "answers" in self.wanted.require and self.openings < self._contents:
            self.findings.add(
                "incomplete", "opening", "the bundle doesn't tell the exact size and digest of every content"
            )
        if "witness" in self.wanted.require and not self.checkpoints.witnessed:
            self.findings.add("policy", "checkpoint", "no known witness has signed the checkpoint")
        if self.wanted.pinned is None:
            self.findings.add("unanchored", "key", "no root key was given (--root-key)")


def _hash(text: object, line: Line) -> bytes:
    try:
        found = decode(text) if isinstance(text, str) else b""
    except ValueError:
        found = b""
    if len(found) != 32:
        raise BundleError(f"line {line.number} holds something else than a hash")
    return found


def _end_of(signed: Signed) -> dict[str, Any]:
    try:
        said = parse_json(signed.body)
    except ValueError:
        said = None
    if signed.kind != BUNDLE_TYPE or not isinstance(said, dict):
        raise BundleError("the end isn't a bundle's end")
    return said
