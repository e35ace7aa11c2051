"""The agenda: who may execute which run, until when.

A lease is a random id, compared for equality. A claim sets `due` to the lease's end, so that a run whose
worker dies comes up again by itself; a renewal moves only `lease_until`, which no index holds.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from abeyance.journal.sqlite.reading import TENANT_STATE
from abeyance.journal.store import Claim, ClaimRequest

_READY = "status IN ('pending', 'running')"
_SLEEPING = "status = 'suspended'"
_FREE = "(lease_id IS NULL OR coalesce(lease_until, 0) <= :now)"
_ACTIVE = f"{TENANT_STATE} = 'active'"
_TAKE = "UPDATE run_control SET lease_id = ?, lease_until = ?, due = ? WHERE run_id = ?"
_RENEW = "UPDATE run_control SET lease_until = ? WHERE lease_id = ?"
_RELEASE = """
UPDATE run_control
SET lease_id = NULL, lease_until = NULL,
    due = CASE WHEN status NOT IN ('pending', 'running', 'suspended') THEN NULL
               WHEN version = :seen THEN :due ELSE :now END
WHERE run_id = :run AND lease_id = :lease
"""
_TAKE_OVER = """
UPDATE run_control
SET lease_id = NULL, lease_until = NULL,
    due = CASE WHEN status IN ('pending', 'running', 'suspended') THEN ? ELSE NULL END
WHERE lease_id IS NOT NULL
"""
_COUNT = """
INSERT INTO lost_workers (run_id, version, times, at)
SELECT run_id, version, 1, :now FROM run_control WHERE {which}
ON CONFLICT (run_id) DO UPDATE
SET times = CASE WHEN lost_workers.version = excluded.version THEN times + 1 ELSE 1 END,
    version = excluded.version, at = excluded.at
"""
_COUNT_ONE = _COUNT.format(which="run_id = :run AND lease_id IS NOT NULL")
_COUNT_ALL = _COUNT.format(which="lease_id IS NOT NULL AND due IS NOT NULL")
_HAS_WORKSPACES = "SELECT 1 FROM workspaces LIMIT 1"
_TIMES = """
SELECT times FROM lost_workers AS l JOIN run_control AS c USING (run_id, version) WHERE run_id = ?
"""
_SELECT_PARKED = """
SELECT w.run_id FROM waits AS w
WHERE w.closed IS NULL AND w.call_key IS NULL AND w.due IS NULL AND EXISTS (
    SELECT 1 FROM journal_events AS e
    WHERE e.originator_id = lower(hex(w.run_id)) AND e.originator_version = w.opened
      AND e.topic = 'code-mismatch'
) LIMIT 10000
"""
_FORGET = "DELETE FROM lost_workers WHERE at < :due - 2592000000000"
_OFFER = "UPDATE run_control SET due = :due WHERE run_id = :run AND lease_id IS NULL AND due > :due"


@dataclass(frozen=True)
class _Query:
    """One request as SQL parameters; `fits` is the condition on definitions."""

    fits: str
    values: dict[str, object]

    @classmethod
    def of(cls, request: ClaimRequest, limit: int) -> "_Query":
        names = {f"d{place}": digest for place, digest in enumerate(request.definitions)}
        loaded = ", ".join(f":{name}" for name in names)
        grace = request.now - request.grace_micros
        passed = {f"w{place}": workspace for place, workspace in enumerate(request.passed)}
        values = {"now": request.now, "grace": grace, "limit": limit, **names, **passed}
        fits = f"(definition IN ({loaded}) OR due <= :grace)"
        if passed:
            fits += f" AND workspace NOT IN ({', '.join(f':{name}' for name in passed)})"
        return cls(fits, values)

    def due(self, cursor: sqlite3.Cursor, state: str, order: str) -> list[tuple[bytes, int]]:
        """Runs in `state` whose time has come, by `due` in this order."""
        statement = (
            f"SELECT run_id, due FROM run_control AS c WHERE {state} AND due <= :now AND {_FREE} "
            f"AND {self.fits} AND {_ACTIVE} ORDER BY due {order} LIMIT :limit"
        )
        return cursor.execute(statement, self.values).fetchall()

    def is_claimable(self, cursor: sqlite3.Cursor, run_id: UUID) -> bool:
        """Whether a hinted run is ready, or due."""
        statement = (
            f"SELECT 1 FROM run_control AS c WHERE run_id = :run "
            f"AND ({_READY} OR {_SLEEPING} AND due <= :now) AND {_FREE} AND {self.fits} AND {_ACTIVE}"
        )
        return cursor.execute(statement, {**self.values, "run": run_id.bytes}).fetchone() is not None


def find_claimable(cursor: sqlite3.Cursor, request: ClaimRequest) -> list[bytes]:
    """The ids of the runs that this request would get, in the order of `ClaimRequest`."""
    room = min(request.room, len(request.lease_ids))
    if room <= 0:
        return []
    if request.passed and not cursor.execute(_HAS_WORKSPACES).fetchone():
        return []  # nobody but the default workspace has runs
    query = _Query.of(request, room)
    hinted = (run.bytes for run in dict.fromkeys(request.hinted) if query.is_claimable(cursor, run))
    chosen = dict.fromkeys(islice(hinted, room))
    newest = [run for run, _ in query.due(cursor, _READY, "DESC") if run not in chosen]
    both = query.due(cursor, _READY, "ASC") + query.due(cursor, _SLEEPING, "ASC")
    oldest = [run for run, _ in sorted(both, key=lambda row: row[1]) if run not in chosen]
    share = _newest_share(room - len(chosen), request.lease_ids[0])
    # What one side can't fill, the other takes.
    wanted = newest[:share] + oldest + newest[share:]
    return list(islice(dict.fromkeys([*chosen, *wanted]), room))


def _newest_share(room: int, lease_id: UUID) -> int:
    """Two thirds of the room. The remainder is drawn by the lease's random id, so that a process that
    claims one run at a time still looks at the oldest every third time.
    """
    return room - room // 3 - (lease_id.int % 3 < room % 3)


def claim(cursor: sqlite3.Cursor, request: ClaimRequest) -> list[Claim]:
    """Take the runs, each under its own lease."""
    runs = find_claimable(cursor, request)
    leases = request.lease_ids[: len(runs)]
    claims = []
    for run, lease in zip(runs, leases, strict=True):
        cursor.execute(_COUNT_ONE, {"run": run, "now": request.now})
        cursor.execute(_TAKE, (lease.bytes, request.lease_until, request.lease_until, run))
        times = cursor.execute(_TIMES, (run,)).fetchone()
        claims.append(Claim(UUID(bytes=run), lease, times[0] if times else 0))
    return claims


def renew(cursor: sqlite3.Cursor, lease_ids: Sequence[UUID], lease_until: int) -> set[UUID]:
    """Prolong the leases that are still on a run."""
    return {lease for lease in lease_ids if cursor.execute(_RENEW, (lease_until, lease.bytes)).rowcount == 1}


def release(
    cursor: sqlite3.Cursor, run_id: UUID, lease_id: UUID, seen_version: int, due: int | None, now: int
) -> None:
    """Give a lease back. If anything happened since `seen_version` the run is due now; if it ended, never."""
    values = {"run": run_id.bytes, "lease": lease_id.bytes, "seen": seen_version, "due": due, "now": now}
    cursor.execute(_RELEASE, values)


def take_over(cursor: sqlite3.Cursor, now: int) -> int:
    """End every lease, and say how many: whoever holds the folder's lock knows that the holders are dead."""
    cursor.execute(_COUNT_ALL, {"now": now})
    return cursor.execute(_TAKE_OVER, (now,)).rowcount


def offer(cursor: sqlite3.Cursor, due: int, runs: Sequence[UUID] | None) -> int:
    """See `JournalStore.offer`. Counts that are 30 days old go when all parked runs are offered."""
    chosen = [run.bytes for run in runs or ()]
    if runs is None:
        cursor.execute(_FORGET, {"due": due})
        chosen = [run for (run,) in cursor.execute(_SELECT_PARKED)]
    return sum(cursor.execute(_OFFER, {"due": due, "run": run}).rowcount for run in chosen)
