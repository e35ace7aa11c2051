"""A run whose stored history doesn't hold, as readers see it: suspended, and why.

Nothing is taken from an event that can't be opened. What the control row says is shown as it stands: it is
kept apart from the events, and says which run this is and in whose workspace.
"""

from abeyance.errors import HistoryDamagedError
from abeyance.journal import events as e
from abeyance.journal.envelope import EventCodec
from abeyance.journal.store import RunRecord
from abeyance.projections.views import OtherView, RunView, WaitingFor
from abeyance.world import from_micros

UNKNOWN = "unknown"


def damaged_view(record: RunRecord, codec: EventCodec) -> RunView:
    """The run of `record`. If even its first event is damaged its definition is unknown, and its time to live
    is shown as over since it began.
    """
    control, started = record.control, _started(record, codec)
    definition = None if started is None else started.definition
    created = from_micros(control.created)
    return RunView(
        id=control.run_id,
        status="suspended",
        kind=UNKNOWN if definition is None else definition.kind,
        definition_id=UNKNOWN if definition is None else definition.id,
        version=UNKNOWN if definition is None else definition.version,
        workspace=control.workspace,
        project=control.project,
        labels={} if started is None else started.labels or {},
        created_at=created,
        updated_at=from_micros(control.updated),
        expires_at=created if started is None else started.expires_at,
        waiting_for=WaitingFor(other=(OtherView(what="history-damaged"),)),
    )


def _started(record: RunRecord, codec: EventCodec) -> e.Started | None:
    try:
        first = codec.open(record.first).event
    except HistoryDamagedError:
        return None
    return first if isinstance(first, e.Started) else None
