"""Purged records: each that is missing must be named by a signed purge."""

from abeyance.verifier.findings import Findings
from abeyance.verifier.records import BodyError, Record


class Purges:
    """The stubs of a bundle, and the `purged` events that cover them."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._stubs: dict[int, list[list[int]]] = {}
        self._ranges: dict[int, list[tuple[int, int]]] = {}

    def expect(self, index: int, purge: int) -> None:
        """A stub at `index` says that the record at `purge` covers it. Neighbours are kept as one range."""
        ranges = self._stubs.setdefault(purge, [])
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])

    def take(self, index: int, record: Record) -> None:
        """A `purged` event, whose signature has been checked."""
        try:
            self._ranges[index] = [(int(first), int(last)) for first, last in record.fields()["ranges"]]
        except (BodyError, KeyError, TypeError, ValueError):
            self._findings.add("tampered", "purge", "a purge without the ranges that it covers", index=index)

    def finish(self) -> None:
        """Hold every stub to its purge."""
        for purge, stubs in self._stubs.items():
            covered = self._ranges.get(purge, [])
            for first, last in stubs:
                if not any(start <= first and last <= end for start, end in covered):
                    problem = f"records {first} to {last} are missing, and no signed purge covers them"
                    self._findings.add("tampered", "purge", problem, index=first)
