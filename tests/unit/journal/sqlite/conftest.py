"""An open SQLite store in a folder of the test's own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from abeyance.journal.sqlite import SQLiteJournalStore, open_sqlite
from abeyance.world import SystemWorld


@pytest.fixture
async def store(anyio_backend: str, tmp_path: Path) -> AsyncIterator[SQLiteJournalStore]:
    """An empty journal. Another program's lock is waited for only shortly."""
    opened = await open_sqlite(tmp_path / "journal", SystemWorld(), busy_timeout_s=0.05)
    yield opened
    await opened.close()
