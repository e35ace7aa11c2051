"""One stored run as readers see it, whether or not its history holds."""

from uuid import UUID

from abeyance.engine.executor import Executor
from abeyance.engine.parking import check_history, left_alone
from abeyance.errors import ContentErasedError, HistoryDamagedError, RunNotFoundError, VerificationError
from abeyance.journal.store import RunRecord
from abeyance.projections.damaged_view import damaged_view
from abeyance.projections.run_view import run_view
from abeyance.projections.views import RunView
from abeyance.world import to_micros


async def stored_view(executor: Executor, run_id: UUID) -> RunView:
    """The run from its inline read models. Raises `RunNotFoundError`.

    A view opens few of a run's events. One that a process has looked at and put back is read whole, so that
    damage anywhere in it is shown.
    """
    record = await executor.store.read_record(run_id)
    if record is None:
        raise RunNotFoundError
    desk = executor.desk
    try:
        key = await executor.keys.get(record.control.key_id)
    except ContentErasedError:
        key = None
    try:
        view = run_view(record, codec=desk.codec, vault=desk.vault, key=key, now=desk.world.now())
        if left_alone(record.control, _deadline(record, view), to_micros(desk.world.now())):
            stored = await executor.store.read_run(run_id)
            if stored is not None:
                check_history(desk, stored)
    except (HistoryDamagedError, VerificationError):
        return damaged_view(record, desk.codec)
    return view


def _deadline(record: RunRecord, view: RunView) -> int:
    dues = [wait.wait.due for wait in record.waits if wait.wait.due is not None]
    return min((*dues, to_micros(view.expires_at)))
