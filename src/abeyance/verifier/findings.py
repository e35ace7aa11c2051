"""What a verification finds, and what follows from it: one verdict, one exit code."""

from dataclasses import dataclass, field

CODES = {
    "verified": 0,
    "tampered": 1,
    "unusable": 2,
    "unanchored": 3,
    "diverged": 4,
    "incomplete": 5,
    "policy": 6,
}
# Which verdict wins when several apply. Proved tampering is the truth, whatever else can't be read.
_PRECEDENCE = ("tampered", "unusable", "diverged", "policy", "incomplete", "unanchored")
MEANINGS = {
    "verified": "every record is as it was signed, none is missing, and the log is the one that was pinned",
    "tampered": "a record was changed, dropped, moved or added",
    "unusable": "it can't be told: the file can't be read, or is of a newer release",
    "unanchored": "consistent in itself, but no root key from elsewhere says whose log it is (--root-key)",
    "diverged": "sound in itself, but it contradicts a checkpoint that was kept from before",
    "incomplete": "sound as far as it goes, but a required part isn't there",
    "policy": "sound, but a required outside witness is missing, or a key was revoked",
}
NOT_PROVEN = (
    "that something that was never recorded did not happen",
    "that the process that signed was honest when it signed",
    "who a person was",
    "anything after the checkpoint's size",
    "what erased content said",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule. `verdict` is what it proves, `warning` if nothing; `check` is one of bundle,
    checkpoint, tree, signature, body, chain, rules, time, purge, opening, key. Never a user's value.
    """

    verdict: str
    check: str
    problem: str
    index: int | None = None
    run: str | None = None
    version: int | None = None

    def __str__(self) -> str:
        where = "" if self.index is None else f"record {self.index}"
        if self.run is not None:
            where += f" (event {self.version} of {self.run})" if where else f"run {self.run}"
        return f"[{self.check}] {where}{': ' if where else ''}{self.problem}"


@dataclass(slots=True)
class Findings:
    """All findings of one verification; nothing stops at the first."""

    found: list[Finding] = field(default_factory=list)

    def add(self, verdict: str, check: str, problem: str, **where: int | str | None) -> None:
        """Note that a rule is broken."""
        self.found.append(Finding(verdict, check, problem, **where))  # type: ignore[arg-type]

    @property
    def verdict(self) -> str:
        """The strongest verdict of all findings."""
        verdicts = {finding.verdict for finding in self.found}
        return next((verdict for verdict in _PRECEDENCE if verdict in verdicts), "verified")
