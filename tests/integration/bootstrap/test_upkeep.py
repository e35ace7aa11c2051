"""Upkeep beside serving: idempotency keys that have expired are removed."""

import asyncio
from typing import Any

import pytest

from abeyance.bootstrap import upkeep
from abeyance.errors import StoreUnavailableError

pytestmark = pytest.mark.anyio


class Pages:
    """As many expired keys as `left` says; the second look finds the store gone."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.pages: list[int] = []
        self.looks = 0
        self.empty = asyncio.Event()

    async def remove_expired(self, limit: int) -> int:
        """See `Replies.remove_expired`."""
        self.looks += 1
        if self.looks == 2:
            raise StoreUnavailableError
        removed = min(limit, self.left)
        self.left -= removed
        self.pages.append(removed)
        if not self.left:
            self.empty.set()
        return removed


class TestExpiredReplies:
    async def test_they_are_removed_in_pages_also_after_a_failure(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(upkeep, "_EXPIRY_EVERY_S", 0.0)
        pages: Any = Pages(1_203)

        task = asyncio.create_task(upkeep.remove_expired_replies(pages))
        await asyncio.wait_for(pages.empty.wait(), 10)
        task.cancel()

        assert [500, 500, 203] == pages.pages[:3]
