"""The standing checks of every run, whatever was done to it (tests/cases.txt): they end every case.

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
from abeyance.journal.store import Control, JournalSnapshot, JournalStore, KeyStore, StoredRun
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
        for _ in session.load(stored):
            pass
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
    allowed: Counter[str] = Counter()
    keys: dict[str, str] = {}
    given_back: set[str] = set()
    for row in stored.events:
        match desk.codec.open(row).event:
            case e.CallStarted() as event:
                keys[event.op] = str(event.key)
                allowed[str(event.key)] += 1
            case e.Rerun(cause="drained") as event if event.op not in given_back:
                given_back.add(event.op)  # a drain's own record; what takes the call up again follows
            case e.Rerun() as event:
                given_back.discard(event.op)
                allowed[keys[event.op]] += 1
            case _:
                pass
    assert {} == {key: (times, allowed[key]) for key, times in ran.items() if times > allowed[key]}


async def assert_all_stand(
    store: JournalStore,
    keys: KeyStore,
    desk: Desk,
    definitions: Definitions,
    public_keys: Mapping[bytes, bytes],
    ran: Mapping[str, Counter[str]],
) -> dict[UUID, StoredRun]:
    """All checks for all runs. `ran` holds what handlers did, by run id and idempotency key."""
    await assert_rows_follow(store, desk)
    async with store.snapshot() as snapshot:
        streams = await _all_streams(snapshot)
        runs = [control.run_id for control in await snapshot.controls(streams)]
    found = {}
    for run_id in runs:
        found[run_id] = await assert_run_stands(store, keys, desk, definitions, run_id, public_keys)
        assert_effects_recorded(desk, found[run_id], ran.get(str(run_id), Counter()))
    return found


async def _all_streams(snapshot: JournalSnapshot) -> list[UUID]:
    streams: list[UUID] = []
    while page := await snapshot.streams(streams[-1] if streams else None, 200):
        streams += page
    return streams
