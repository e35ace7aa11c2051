"""Checking signatures, in this process or in several: Ed25519 is nearly all of a full verification's work."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from abeyance.verifier.findings import Findings
from abeyance.verifier.signatures import holds

_BATCH = 512
_MOST_WAITING = 4

Item = tuple[bytes, bytes, bytes, int, str, int]


class SignatureChecks:
    """Takes signatures as `Check` does. With an executor it hands them on in batches, a few at a time."""

    def __init__(self, findings: Findings, executor: ProcessPoolExecutor | None, jobs: int) -> None:
        self._findings = findings
        self._executor = executor
        self._most = jobs * _MOST_WAITING
        self._batch: list[Item] = []
        self._waiting: deque[tuple[list[Item], Future[Any]]] = deque()
        self.checked = 0

    def __call__(
        self, public: bytes, signature: bytes, message: bytes, index: int, run: str, version: int
    ) -> None:
        """Check one signature; a wrong one becomes a finding, at the latest when the block ends."""
        item = (public, signature, message, index, run, version)
        self.checked += 1
        if self._executor is None:
            self._note(item, holds(public, signature, message))
            return
        self._batch.append(item)
        if len(self._batch) == _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand the batch on."""
        if self._executor is not None and self._batch:
            triples = [item[:3] for item in self._batch]
            self._waiting.append((self._batch, self._executor.submit(_check_all, triples)))
            self._batch = []
            while len(self._waiting) > self._most:
                self._collect()

    def finish(self) -> None:
        """Wait for all verdicts."""
        self.flush()
        while self._waiting:
            self._collect()

    def _collect(self) -> None:
        items, verdicts = self._waiting.popleft()
        for item, verdict in zip(items, verdicts.result(), strict=True):
            self._note(item, verdict)

    def _note(self, item: Item, verdict: bool) -> None:
        if verdict:
            return
        _, _, _, index, run, version = item
        if index < 0:
            self._findings.add("tampered", "bundle", "the signature of the bundle's end doesn't hold")
        else:
            self._findings.add(
                "tampered", "signature", "the signature doesn't hold", index=index, run=run, version=version
            )


def _check_all(triples: list[tuple[bytes, bytes, bytes]]) -> list[bool]:
    return [holds(*triple) for triple in triples]


@contextmanager
def signature_checks(findings: Findings, jobs: int) -> Iterator[SignatureChecks]:
    """Checks by this many processes; all verdicts are in when the block ends."""
    if jobs <= 1:
        yield SignatureChecks(findings, None, 1)
        return
    with ProcessPoolExecutor(jobs) as executor:
        checks = SignatureChecks(findings, executor, jobs)
        yield checks
        checks.finish()
