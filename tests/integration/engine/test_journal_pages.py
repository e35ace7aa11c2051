"""A run's journal in pages: the same entries whatever a page's size, each page read from where it begins."""

import uuid
from typing import Any
from uuid import UUID

import pytest

from abeyance.errors import RunNotFoundError
from abeyance.journal.events import DEPLOYMENT_STREAM
from abeyance.projections.views import JournalEntry
from tests.integration.engine.test_main_job import LINKS, bench, note, pickup
from tests.support.engine import Deployment, EngineProcess

pytestmark = pytest.mark.anyio


async def all_pages(process: EngineProcess, run_id: UUID, limit: int, contents: bool) -> list[JournalEntry]:
    """The whole journal, `limit` entries at a time."""
    found: list[JournalEntry] = []
    after: str | None = "0"
    while after is not None:
        page = await process.runs.journal(run_id, after=int(after), limit=limit, contents=contents)
        found += page.data
        after = page.next_cursor
    return found


class TestPages:
    @pytest.mark.parametrize("contents", [False, True])
    async def test_the_pages_together_are_the_journal(self, deployment: Deployment, contents: bool) -> None:
        async with deployment.process(bench, pickup, note) as process:
            view = await process.start(bench, b'{"orderId":"ord_1"}')
            await process.answer(LINKS[-1], b'{"orderId":"ord_1","pickupId":"pk_7"}')
            await process.settled(view.id)

            whole = await process.runs.journal(view.id, limit=100, contents=contents)

            assert None is whole.next_cursor
            assert "wait-token-completed" in [entry.kind for entry in whole.data if entry.node]
            for limit in (1, 2, len(whole.data) - 1, len(whole.data)):
                assert list(whole.data) == await all_pages(process, view.id, limit, contents)

    async def test_a_page_reads_no_event_before_it(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with deployment.process(bench, pickup, note) as process:
            view = await process.start(bench, b'{"orderId":"ord_1"}')
            read: list[int] = []
            whole = process.store.read_events

            async def watched(run_id: UUID, **asked: Any) -> Any:
                rows, contents = await whole(run_id, **asked)
                read.extend(row.version for row in rows)
                return rows, contents

            monkeypatch.setattr(process.store, "read_events", watched)
            await process.runs.journal(view.id, after=3, limit=2)

            assert [4, 5, 6] == read

    async def test_a_stream_that_is_no_run_s_is_not_shown(self, deployment: Deployment) -> None:
        async with deployment.process(bench, pickup, note) as process:
            for stream in (DEPLOYMENT_STREAM, uuid.UUID(int=7)):
                with pytest.raises(RunNotFoundError):
                    await process.runs.journal(stream)
