"""The append of an answer to a run that isn't at hand, made from rows alone."""

from abeyance.crypto.sealing import RunKey
from abeyance.errors import HistoryDamagedError
from abeyance.journal.batch import Desk, Lease, due_of
from abeyance.journal.events import WaitTokenAnswered, WaitTokenCompleted
from abeyance.journal.store import Append, Control, StoredWait
from abeyance.world import to_micros


def append_of_answer(
    desk: Desk, stored: StoredWait, *, wait_id: str, answer: bytes, by: str, key: RunKey, lease: Lease | None
) -> Append:
    """One event that takes (or holds) `answer`, and the rows that say so.

    A run that somebody executes keeps its lease: only the version moves. A run that nobody holds wakes up:
    under `lease` if the caller can execute it, else it is due at once. Raises `HistoryDamagedError` if the
    newest event and the control row disagree, so that nothing is signed over a wrong row.
    """
    control, wait = stored.control, stored.wait
    newest = desk.codec.verify(stored.newest, desk.public_keys)
    if (newest.version, newest.digest) != (control.version, control.head):
        raise HistoryDamagedError("the control row and the newest event differ", where=str(control.run_id))
    content, moment, version = desk.vault.commit(answer), desk.world.now(), control.version + 1
    waiting = wait.state == "waiting"
    event = WaitTokenCompleted if waiting else WaitTokenAnswered
    row, recorded = desk.codec.seal(
        event(answer=content.ref, by=by, wait=wait_id),
        stream=wait.run_id,
        version=version,
        prev=newest.digest,
        at=max(moment, newest.at),
        signer=desk.signer,
    )
    moved = control._replace(version=version, head=recorded.digest, updated=to_micros(recorded.at))
    return Append(
        expected_version=control.version,
        expected_lease=control.lease_id,
        control=_woken(moved, lease, now=to_micros(moment)),
        events=(row,),
        contents=(desk.vault.seal(content, key, run_id=wait.run_id, version=version),),
        waits=(
            wait._replace(state="completed", answer=version, closed=version)
            if waiting
            else wait._replace(state="answered", answer=version),
        ),
    )


def _woken(control: Control, lease: Lease | None, *, now: int) -> Control:
    status = "running" if control.status == "suspended" else control.status
    held = control.lease_id is not None and (control.lease_until or 0) > now
    if held:
        return control._replace(status=status)
    return control._replace(
        status=status,
        due=due_of(status, lease, now=now, deadline=now),
        lease_id=None if lease is None else lease.id,
        lease_until=None if lease is None else lease.until,
    )
