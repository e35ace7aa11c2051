"""Random histories through a real store: rows, lists and signatures agree, wherever the follower stopped."""

import random
from uuid import UUID

import pytest

from abeyance.audit.journal import verify_store
from abeyance.projections.checking import check
from abeyance.projections.wait_view import id_of
from tests.integration.projections.conftest import Deployment
from tests.unit.projections.histories import ROOT, Author, deployment_rows, write

pytestmark = pytest.mark.anyio


async def test_every_row_is_what_the_journal_says(deployment: Deployment, seed: int) -> None:
    chance = random.Random(seed)
    rows = deployment_rows()
    await deployment.journal.append_stream(rows[0].run_id, 0, rows)
    authors = [
        write(
            [chance.randrange(40) for _ in range(chance.randrange(25))], UUID(int=number),
            cut_every=chance.randrange(1, 4), labels={"order": str(number % 3)},
        )
        for number in range(1, 31)
    ]  # fmt: skip
    waiting = [author for author in authors if author.appends]
    while waiting:
        author = chance.choice(waiting)
        assert await deployment.journal.append([author.appends.pop(0)]) == [True]
        waiting = [author for author in waiting if author.appends]
        if chance.random() < 0.1:
            await deployment.follower.catch_up(within_s=0)
        if chance.random() < 0.02:
            async with deployment.journal.snapshot() as snapshot:
                assert () == (await check(snapshot, deployment.codec)).drift

    for status in ("pending", "running", "suspended", "completed", "failed", "cancelled"):
        expected = [author.run_id.int for author in reversed(authors) if author.now.status == status]
        assert expected == await deployment.listed(status=status)
    listed = await deployment.waiting(limit=1_000)
    assert sorted(_reached(authors)) == sorted(listed)
    async with deployment.journal.snapshot() as snapshot:
        assert () == (await check(snapshot, deployment.codec)).drift
        assert "verified" == (await verify_store(snapshot, root_public_key=ROOT.public_key)).verdict


def _reached(authors: list[Author]) -> list[tuple[int, str]]:
    """The waits that the runs have come to, by the state of each run."""
    return [
        (author.run_id.int, id_of(key))
        for author in authors
        for key, wait in author.now.waits.items()
        if wait.row.call_key is None or wait.row.paused is not None
    ]
