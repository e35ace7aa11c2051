"""What the doctor says: lines, each about one thing."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "wrong", "unseen"]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing: `ok`; `note`, fine but worth knowing; `wrong`, with what to `do`; `unseen`, with why."""

    check: str
    state: State
    says: str
    do: str | None = None

    def as_dict(self) -> dict[str, str]:
        """Plain data; `do` only if there is something to do."""
        plain = {"check": self.check, "state": self.state, "says": self.says}
        return plain if self.do is None else {**plain, "do": self.do}


def ok(check: str, says: str) -> Line:
    """It is as it should be."""
    return Line(check, "ok", says)


def note(check: str, says: str, do: str | None = None) -> Line:
    """It works, and somebody should know."""
    return Line(check, "note", says, do)


def wrong(check: str, says: str, do: str | None = None) -> Line:
    """A process wouldn't start, or wouldn't do what it promises."""
    return Line(check, "wrong", says, do)


def unseen(check: str, says: str) -> Line:
    """It wasn't looked at."""
    return Line(check, "unseen", says)
