"""The standing checks of every run, whatever was done to it (cases.md: they end every case).

1. Every event's signature holds, the chain is whole, the run's rules are kept.
2. The inline rows are those that the journal makes.
3. A fresh replay of the stored history comes to the same end, and runs no handler.
4. A handler that may change something ran at most once for each record that says that it begins.
"""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from abeyance.audit.history import verify_run
from abeyance.crypto.sealing import RunKey
from abeyance.engine.definitions import Definitions
from abeyance.engine.operations import Raised, Returned
from abeyance.engine.turn import Session
from abeyance.journal import events as e
from abeyance.journal.batch import Desk
from abeyance.journal.store import Control, JournalStore, KeyStore, StoredRun
from abeyance.projections.checking import check

# Ends that come from outside the program.
_OUTSIDE = frozenset(("run-expired",))


async def assert_rows_follow(store: JournalStore, desk: Desk) -> None:
    """Control rows, waits and links of all runs are what their events say."""
    async with store.snapshot() as snapshot:
        report = await check(snapshot, desk.codec)
    assert [] == [str(drift) for drift in report.drift]


async def assert_run_stands(
    store: JournalStore,
    keys: KeyStore,
    desk: Desk,
    definitions: Definitions,
    run_id: UUID,
    public_keys: Mapping[bytes, bytes],
) -> StoredRun:
    """Checks 1 and 3 for one run."""
    stored = await store.read_run(run_id)
    assert stored is not None
    findings = verify_run(stored.events, public_keys, codec=desk.codec, control=stored.control)
    assert [] == [f"{each.version} {each.topic}: {each.problem}" for each in findings]
    await _assert_replay_agrees(stored, keys, desk, definitions)
    return stored


async def _assert_replay_agrees(
    stored: StoredRun, keys: KeyStore, desk: Desk, definitions: Definitions
) -> None:
    control = stored.control
    first, last = (desk.codec.open(stored.events[place]).event for place in (0, -1))
    assert isinstance(first, e.Started)
    ref = first.definition
    definition = definitions.find(ref.kind, ref.id, ref.version)
    assert definition is not None
    key = RunKey(control.key_id, (await keys.get([control.key_id]))[control.key_id])
    session = Session(desk, key, control.run_id, definition)
    try:
        session.load(stored)
        outcome = session.driver.outcome
        if isinstance(last, e.Completed):
            assert isinstance(outcome, Returned)
            assert session.contents(control.version) == outcome.output
        elif isinstance(last, e.Failed) and last.code not in _OUTSIDE:
            assert isinstance(outcome, Raised)
            assert (last.code, last.node) == (outcome.code, outcome.node)
        else:
            _assert_sleeps(control, session)
    finally:
        session.close()


def _assert_sleeps(control: Control, session: Session) -> None:
    """A run that waits has nothing to do: no call is under way, nothing is asked for."""
    state = session.state
    assert state is not None
    if control.status == "suspended" and state.mismatch is None:
        assert [] == [call.op for call in state.calls.values() if call.phase in ("running", "drained")]
        assert () == session.driver.wanted()


def assert_effects_recorded(desk: Desk, stored: StoredRun, ran: Counter[str]) -> None:
    """Check 4. `ran` counts how often handlers of this run were entered, by idempotency key."""
    events = [desk.codec.open(row).event for row in stored.events]
    keys = {event.op: str(event.key) for event in events if isinstance(event, e.CallStarted)}
    allowed = Counter(keys[event.op] for event in events if isinstance(event, e.CallStarted))
    allowed += Counter(
        keys[event.op] for event in events if isinstance(event, e.Rerun) and not _is_give_back(event)
    )
    excess = {key: (times, allowed[key]) for key, times in ran.items() if times > allowed[key]}
    assert {} == excess


def _is_give_back(event: e.Rerun) -> bool:
    """A drain's own record starts no handler; the one that takes the call up again may carry a link."""
    return False if event.cause == "worker-lost" else event.link is None
