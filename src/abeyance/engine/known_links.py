"""Which links answer which waits, of the runs that are at hand."""

from typing import NamedTuple
from uuid import UUID


class KnownLink(NamedTuple):
    """What a link answers."""

    run_id: UUID
    wait_id: str


class KnownLinks:
    """Links by the digest of their token, as long as their run is at hand."""

    def __init__(self) -> None:
        self._links: dict[bytes, KnownLink] = {}
        self._of: dict[UUID, list[bytes]] = {}

    def know(self, digest: bytes, run_id: UUID, wait_id: str) -> None:
        """Remember which wait a link answers."""
        self._links[digest] = KnownLink(run_id, wait_id)
        self._of.setdefault(run_id, []).append(digest)

    def find(self, digest: bytes) -> KnownLink | None:
        """What the link answers, if it is known."""
        return self._links.get(digest)

    def drop(self, digest: bytes) -> None:
        """The link was killed."""
        self._links.pop(digest, None)

    def forget(self, run_id: UUID) -> None:
        """The run isn't at hand any more."""
        for digest in self._of.pop(run_id, ()):
            self._links.pop(digest, None)

    def clear(self) -> None:
        """Know none."""
        self._links.clear()
        self._of.clear()
