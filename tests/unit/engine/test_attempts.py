"""Attempts at links: queued, written in batches, dropped rather than waited for."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from abeyance.engine import attempts as module
from abeyance.engine.attempts import LinkAttempts
from abeyance.errors import StoreUnavailableError
from abeyance.journal.attempts import Attempt, StoredAttempts, size_bucket
from abeyance.world import SystemWorld

pytestmark = pytest.mark.anyio

RUN = UUID(int=1)
WAIT = f"pause:{UUID(int=2)}:1"


class Rows:
    """An `AttemptStore` in memory; `failing` is raised by `add`."""

    def __init__(self, failing: Exception | None = None) -> None:
        self.batches: list[list[Attempt]] = []
        self.failing = failing

    async def add(self, attempts: Sequence[Attempt]) -> None:
        if self.failing is not None:
            raise self.failing
        self.batches.append(list(attempts))

    async def find(self, run_id: UUID, call_key: UUID, ordinal: int) -> StoredAttempts:
        return StoredAttempts({"all": sum(map(len, self.batches))})

    async def erase(self, run_ids: Sequence[UUID]) -> None:
        raise NotImplementedError


def note(attempts: LinkAttempts, *, client: bytes = b"\x7f\0\0\1", size: int | None = 5) -> None:
    attempts.note(RUN, WAIT, verdict="accepted", size=size, client=client)


class TestLinkAttempts:
    async def test_they_come_together_in_batches_behind_the_replies(self) -> None:
        rows = Rows()
        attempts = LinkAttempts(rows, SystemWorld(), b"secret", every_s=0.01)
        writing = asyncio.create_task(attempts.run())
        for _ in range(module.BATCH + 5):
            note(attempts)
        assert [] == rows.batches

        async with asyncio.timeout(5):
            while sum(map(len, rows.batches)) < module.BATCH + 5:
                await asyncio.sleep(0.005)

        writing.cancel()
        assert [module.BATCH, 5] == [len(batch) for batch in rows.batches]

    async def test_a_full_queue_drops_what_comes(self) -> None:
        rows = Rows()
        attempts = LinkAttempts(rows, SystemWorld(), b"secret")
        for _ in range(module.MOST_QUEUED + 3):
            note(attempts)

        await attempts.flush()

        assert (3, module.MOST_QUEUED) == (attempts.dropped, sum(map(len, rows.batches)))

    @pytest.mark.parametrize("error", [StoreUnavailableError(), RuntimeError("broken")])
    async def test_what_cannot_be_written_is_dropped_with_one_warning(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        rows = Rows(error)
        attempts = LinkAttempts(rows, SystemWorld(), b"secret")
        for _ in range(3):
            note(attempts)
            await attempts.flush()
        rows.failing = None
        note(attempts)
        await attempts.flush()

        assert (3, 1) == (attempts.dropped, len(rows.batches))
        assert 1 == len(caplog.records)
        assert "broken" not in caplog.text

    async def test_an_address_is_kept_as_a_keyed_hash(self) -> None:
        """The same sender has the same one; another deployment has another."""
        rows = Rows()
        ours, theirs = (LinkAttempts(rows, SystemWorld(), secret) for secret in (b"ours", b"theirs"))
        for attempts, client in ((ours, b"abcd"), (ours, b"abcd"), (ours, b"efgh"), (theirs, b"abcd")):
            note(attempts, client=client)
        for attempts in (ours, theirs):
            await attempts.flush()

        one, two, three, four = (attempt.client for batch in rows.batches for attempt in batch)
        assert one == two
        assert 3 == len({one, three, four})
        assert b"abcd" not in one

    async def test_who_looks_sees_what_was_noted_here(self) -> None:
        attempts = LinkAttempts(Rows(), SystemWorld(), b"secret")
        note(attempts)

        assert {"all": 1} == (await attempts.find(RUN, UUID(int=2), 1)).counts

    async def test_what_is_no_wait_token_is_not_noted(self) -> None:
        rows = Rows()
        attempts = LinkAttempts(rows, SystemWorld(), b"secret")
        attempts.note(RUN, "timer:1", verdict="accepted", size=1, client=b"")

        await attempts.close()

        assert [] == rows.batches


class TestSizeBucket:
    @pytest.mark.parametrize(
        ("size", "bucket"),
        [(0, 0), (1, 256), (256, 256), (257, 1024), (1024, 1024), (5_000, 16_384), (1_048_576, 1_048_576)],
    )
    def test_sizes_are_rounded_up(self, size: int, bucket: int) -> None:
        assert bucket == size_bucket(size)
