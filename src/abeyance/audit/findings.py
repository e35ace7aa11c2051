"""What a verification finds: one finding a broken rule, each with the event that it is about.

A finding says what doesn't hold; it never says who did it, and never holds a user's value.
"""

from dataclasses import dataclass
from uuid import UUID

RULES = {
    "unreadable": "the stored form can't be unpacked or isn't an event's body",
    "row": "an unsigned column of the row differs from the signed body",
    "key": "signed by a key that the log doesn't certify for events",
    "signature": "the signature doesn't hold",
    "shape": "the data isn't what its topic holds, or isn't written as it is signed",
    "unknown": "this release can't read the topic or the body's version",
    "version": "a version is missing, repeated or out of order",
    "chain": "`prev` isn't the id of the stream's event before",
    "time": "`at` is earlier than that of the event before",
    "beginning": "the stream doesn't begin with the event that its kind begins with",
    "end": "something follows the event that ended the run",
    "wait": "an event of a wait token doesn't fit what became of the token before",
    "head": "the run's control row names another newest event",
    "log": "the log's tiles or its checkpoint don't fit the events",
    "sealed": "the sealed index names an event that isn't stored, or names them out of order",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule of `RULES` that doesn't hold. `version` is the event's place in its stream, `topic` as its row
    says, `event_id` the hex leaf hash of its body if that could be read; `index` a sealed index.
    """

    rule: str
    stream: UUID
    version: int | None
    problem: str
    topic: str | None = None
    event_id: str | None = None
    index: int | None = None

    def __str__(self) -> str:
        """One line for people."""
        if self.version is None:
            return f"{self.stream}: {self.problem}"
        return f"event {self.version} ({self.topic}) of {self.stream}: {self.problem}"
