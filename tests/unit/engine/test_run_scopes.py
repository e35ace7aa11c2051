"""Where a run belongs: read once, remembered in bounds."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from abeyance.engine.callers import EVERYBODY, Caller
from abeyance.engine.run_scopes import RunScope, RunScopes
from abeyance.errors import RunNotFoundError
from abeyance.journal.envelope import EventCodec
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.journal.store import Control, EventRow, RunRecord
from abeyance.journal.workspace_streams import workspace_stream
from tests.support.engine import ORIGIN

pytestmark = pytest.mark.anyio

NEVER = UUID(int=99)


class Store:
    """Runs 1 to 9 of workspace `acme`, project `shop`, whose first events are damaged."""

    def __init__(self) -> None:
        self.reads: list[UUID] = []

    async def read_record(self, run_id: UUID) -> RunRecord | None:
        self.reads.append(run_id)
        if run_id.int > 9:
            return None
        first = EventRow(run_id, 1, "started", b"damaged")
        control = Control(
            run_id, 1, b"", "running", None, None, None, b"", 1, "live", "acme", "shop", 1, 1
        )  # fmt: skip
        return RunRecord(control, first, first, None, [])


def scopes(store: Any, remembered: int = 2) -> RunScopes:
    return RunScopes(store, EventCodec(ORIGIN), remembered=remembered)


class TestRunScopes:
    async def test_a_run_is_read_once(self) -> None:
        store = Store()
        found = scopes(store)

        assert [await found.of(UUID(int=1)) for _ in range(3)] == 3 * [RunScope("acme", "shop", "")]
        assert [UUID(int=1)] == store.reads

    async def test_those_that_were_not_asked_for_longest_are_forgotten(self) -> None:
        store = Store()
        found = scopes(store)
        for number in (1, 2, 1, 3, 1, 2):
            await found.of(UUID(int=number))

        assert [1, 2, 3, 2] == [run.int for run in store.reads]

    async def test_a_run_that_is_not_there_is_asked_for_again(self) -> None:
        store = Store()
        found = scopes(store)
        for _ in range(2):
            with pytest.raises(RunNotFoundError):
                await found.of(NEVER)

        assert [NEVER] * 2 == store.reads

    @pytest.mark.parametrize(
        ("caller", "seen"),
        [
            (Caller("key_1", "acme"), {"run", "acme"}),
            (Caller("key_1", "acme", "shop"), {"run"}),
            (Caller("key_1", "acme", "billing"), set()),
            (Caller("key_1", "other"), {"other"}),
            (replace(EVERYBODY, workspace="acme"), {"run", "acme", "deployment"}),
            (EVERYBODY, {"deployment"}),
        ],
    )
    async def test_a_caller_sees_the_streams_of_their_workspace_and_project(
        self, caller: Caller, seen: set[str]
    ) -> None:
        streams = {
            "run": UUID(int=1),
            "never": NEVER,
            "acme": workspace_stream("acme"),
            "other": workspace_stream("other"),
            "deployment": DEPLOYMENT_STREAM,
        }
        found = scopes(Store())

        assert seen == {name for name, stream in streams.items() if await found.sees(caller, stream)}
