"""Checkpoints: the bundle's own, and those that an auditor has kept from before."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from abeyance.verifier.findings import Findings
from abeyance.verifier.hashing import Tree, is_consistent
from abeyance.verifier.signatures import Note, decode

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(slots=True)
class _Head:
    origin: str
    size: int
    root: bytes
    note: Note


def _read(text: str) -> _Head:
    note = Note(text)
    origin, size, root, *_ = [*note.text.split("\n"), "", "", ""]
    if not origin or not _SIZE.fullmatch(size) or len(decode(root)) != 32:
        raise ValueError("not a checkpoint")
    return _Head(origin, int(size), decode(root), note)


class Checkpoints:
    """What the tree must agree with. `kept` are notes from earlier audits, `witnesses` keys by name."""

    def __init__(self, findings: Findings, kept: Sequence[str], witnesses: dict[str, bytes]) -> None:
        self._findings = findings
        self._kept_texts = kept
        self._kept: list[_Head] = []
        self._met: set[int] = set()
        self._witnesses = witnesses
        self._origin = ""
        self._size = 0
        self._own: _Head | None = None
        self.note: str | None = None
        self._roots: dict[bytes | None, int] = {}
        self._proofs: dict[tuple[int, int], list[bytes]] = {}
        self.witnessed: dict[str, int] = {}

    def begin(self, origin: str, size: int) -> None:
        """Learn which log it is, and read the kept checkpoints."""
        self._origin, self._size = origin, size
        for text in self._kept_texts:
            try:
                head = _read(text)
            except ValueError:
                self._findings.add("unusable", "checkpoint", "a known checkpoint can't be read")
                continue
            if head.origin != origin:
                self._findings.add("diverged", "checkpoint", "a known checkpoint is of another log")
            elif head.size > size:
                problem = (
                    f"the log had {head.size} records when a known checkpoint was signed, and has {size} here"
                )
                self._findings.add("diverged", "checkpoint", problem)
            else:
                self._kept.append(head)

    def pass_size(self, tree: Tree) -> None:
        """Hold kept checkpoints of just this size to the tree."""
        for head in self._kept:
            if head.size == tree.size:
                self._meet(head, tree.root() == head.root)

    def take(self, note: str, log_keys: list[bytes]) -> None:
        """The bundle's own checkpoint, of which there is one."""
        if self._own is not None:
            self._findings.add("tampered", "checkpoint", "the bundle has a second checkpoint")
            return
        try:
            self._own = own = _read(note)
        except ValueError:
            self._findings.add("tampered", "checkpoint", "the checkpoint can't be read")
            return
        self.note = note
        if (own.origin, own.size) != (self._origin, self._size):
            self._findings.add("tampered", "checkpoint", "the checkpoint is of another log or another size")
        if not any(own.note.is_signed(self._origin, key) for key in log_keys):
            self._findings.add(
                "tampered", "checkpoint", "no log key that the log certifies signed the checkpoint"
            )
        for name, key in self._witnesses.items():
            moment = own.note.cosigned_at(name, key)
            if moment is not None:
                self.witnessed[name] = moment

    def take_proof(self, older: int, newer: int, proof: list[bytes]) -> None:
        """A consistency proof, for a kept checkpoint of size `older`."""
        self._proofs[older, newer] = proof

    def expect_root(self, root: bytes | None, index: int) -> None:
        """A record's proof leads to this root."""
        self._roots.setdefault(root, index)

    def finish(self, root: bytes | None) -> None:
        """Hold everything to the bundle's checkpoint. `root` is the whole tree's, if the bundle is whole."""
        if self._own is None:
            self._findings.add("tampered", "checkpoint", "the bundle has no checkpoint")
            return
        if root is not None and root != self._own.root:
            self._findings.add("tampered", "tree", "the records don't lead to the checkpoint's root hash")
        for found, index in self._roots.items():
            if found != self._own.root:
                self._findings.add(
                    "tampered", "tree", "its proof doesn't lead to the checkpoint's root hash", index=index
                )
        for head in self._kept:
            if id(head) not in self._met:
                self._prove(head, self._own)

    def _prove(self, head: _Head, own: _Head) -> None:
        proof = [] if head.size == own.size else self._proofs.get((head.size, own.size))
        if proof is None:
            problem = f"no proof leads from the known checkpoint of size {head.size} to this one"
            self._findings.add("incomplete", "checkpoint", problem)
        else:
            self._meet(head, is_consistent(head.size, own.size, head.root, own.root, proof))

    def _meet(self, head: _Head, agrees: bool) -> None:
        self._met.add(id(head))
        if not agrees:
            problem = f"the log's first {head.size} records aren't those of a known checkpoint"
            self._findings.add("diverged", "checkpoint", problem)
