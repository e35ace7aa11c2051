"""Changes of a wait token that is open: its deadline is moved, its links are replaced or killed.

Each is one event, decided on the run's state and appended by the compare-and-swap that answers and timeouts
go through too, so whichever comes first decides what the others are told. A wait that holds an answer, or
whose deadline has passed, is over for whoever would change it, whether or not an event says so yet.
"""

from datetime import datetime, timedelta

from abeyance.engine.endings import Journal
from abeyance.errors import (
    BadInputError,
    Issue,
    WaitTokenClosedError,
    WaitTokenNotFoundError,
    WaitTokenNotReachedError,
)
from abeyance.journal import events as e
from abeyance.journal.run import PendingWait, RunState
from abeyance.world import to_micros

LONGEST_WAIT = timedelta(days=24)


def extend(journal: Journal, wait_id: str, until: datetime, now: datetime, actor: str | None) -> None:
    """Move the deadline of a wait that the run has reached to `until`, later or earlier than it was.

    Raises `WaitTokenNotFoundError`, `WaitTokenClosedError`, `WaitTokenNotReachedError`, and `BadInputError`
    for a moment that has passed or is past what the wait may last.
    """
    wait = _changeable(journal.state, wait_id, now)
    if wait.paused_at is None:
        raise WaitTokenNotReachedError
    if until <= now:
        raise BadInputError("`until` must be in the future", (Issue("/until", "minimum"),))
    latest = min(wait.paused_at + LONGEST_WAIT, journal.state.started.expires_at)
    if until > latest:
        raise BadInputError(
            f"`until` must be at most {_shown(latest)}: 24 days after the pause, and within the run's TTL",
            (Issue("/until", "maximum"),),
        )
    journal.add(e.WaitTokenExtended(actor=actor, times_out_at=until, wait=wait_id))


def rotate(journal: Journal, wait_id: str, digest: bytes, now: datetime, actor: str | None) -> None:
    """Give the wait the link with this digest, and kill all that it had.

    Raises `WaitTokenNotFoundError`, `WaitTokenClosedError`.
    """
    _changeable(journal.state, wait_id, now)
    journal.add(e.LinkRotated(actor=actor, link=digest.hex(), wait=wait_id))


def revoke(journal: Journal, wait_id: str, now: datetime, actor: str | None) -> None:
    """Kill all links of the wait; the app's key can still answer it.

    Raises `WaitTokenNotFoundError`, `WaitTokenClosedError`.
    """
    _changeable(journal.state, wait_id, now)
    journal.add(e.LinkRevoked(actor=actor, wait=wait_id))


def _changeable(state: RunState, wait_id: str, now: datetime) -> PendingWait:
    """The wait, if it is open. Of a closed one only the rows know what became of it."""
    wait = state.waits.get(wait_id)
    if wait is None or wait.row.call_key is None:
        raise WaitTokenNotFoundError
    if wait.held is not None:
        raise WaitTokenClosedError("answered")
    due = wait.row.due
    if (due is not None and to_micros(now) >= due) or now >= state.started.expires_at:
        raise WaitTokenClosedError("timed-out")
    return wait


def _shown(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"
