"""Whether a key counted where an event stands: its index lies between the key's certificate and its end.

Time never decides: a thief dates an event as it suits him. An event that has no index yet comes after
everything that has one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeyance.audit.findings import Finding
from abeyance.audit.keys import CertifiedKeys
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import EventRow, JournalSnapshot

_UNSEALED = 1 << 62


@dataclass(frozen=True, slots=True)
class Place:
    """The sealed indexes at which a key was added and ended, `None` if that has none yet or isn't so."""

    added: int | None
    ended: int | None


class KeyPlaces:
    """The places of all keys of a log, by kid."""

    def __init__(self, places: Mapping[bytes, Place]) -> None:
        self.places = places

    def check(self, rows: Sequence[EventRow], indexes: Mapping[int, int]) -> list[Finding]:
        """What is wrong with these events of one stream, whose indexes are given by version."""
        found = []
        for row in rows:
            index = indexes.get(row.version)
            problem = self._problem(row.state[:8], _UNSEALED if index is None else index)
            if problem is not None:
                found.append(
                    Finding(
                        rule="key", stream=row.run_id, version=row.version, problem=problem, topic=row.topic,
                        index=index,
                    )
                )  # fmt: skip
        return found

    def _problem(self, kid: bytes, index: int) -> str | None:
        place = self.places.get(kid)
        if place is None:
            return None  # the root key's, or one that isn't certified: found by the signature's check
        if place.ended is not None and index > place.ended:
            return f"signed by {kid.hex()} after its end at index {place.ended}"
        added = _UNSEALED if place.added is None else place.added
        if index < added:
            return f"signed by {kid.hex()} before it was added"
        return None


async def find_places(snapshot: JournalSnapshot, keys: CertifiedKeys) -> KeyPlaces:
    """Where the log's own entries about its keys stand."""
    versions = {life.added for life in keys.lives.values()}
    versions |= {life.ended for life in keys.lives.values() if life.ended is not None}
    indexes = await snapshot.sealed_indexes(DEPLOYMENT_STREAM, sorted(versions))
    return KeyPlaces(
        {
            kid: Place(indexes.get(life.added), None if life.ended is None else indexes.get(life.ended))
            for kid, life in keys.lives.items()
        }
    )
