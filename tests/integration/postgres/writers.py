"""Processes that write to the same runs at once, each with its own store."""

import asyncio
import multiprocessing
import random
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from uuid import UUID

from abeyance.journal.postgres import open_postgres
from abeyance.journal.store import Append
from tests.integration.postgres.samples import WORLD, new_append


@dataclass(frozen=True)
class Work:
    """`rounds` batches of up to `batch` appends to some of `runs`; `seed` decides which, in which order."""

    url: str
    runs: Sequence[UUID]
    rounds: int
    batch: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """How many appends one process won and lost."""

    won: int
    lost: int


def write_at_once(
    url: str, runs: Sequence[UUID], *, processes: int, rounds: int, batch: int
) -> list[Outcome]:
    """Let `processes` processes start together; what each of them did. Raises if one failed."""
    context = multiprocessing.get_context("spawn")
    together, outcomes = context.Barrier(processes), context.SimpleQueue()
    works = [Work(url, runs, rounds, batch, seed) for seed in range(processes)]
    children = [context.Process(target=_write, args=(work, together, outcomes)) for work in works]
    for child in children:
        child.start()
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        raise RuntimeError(f"writers failed: {[child.exitcode for child in children]}")
    return [outcomes.get() for _ in children]


def _write(work: Work, together: Barrier, outcomes: "SimpleQueue[Outcome]") -> None:
    outcomes.put(asyncio.run(_write_all(work, together)))


async def _write_all(work: Work, together: Barrier) -> Outcome:
    store = await open_postgres(work.url, WORLD)
    choose = random.Random(work.seed)
    known = dict.fromkeys(work.runs, 0)
    won = lost = 0
    together.wait()
    for _ in range(work.rounds):
        chosen = choose.sample(list(work.runs), work.batch)
        appends: list[Append] = [
            new_append(run, after=known[run], count=choose.randint(1, 3)) for run in chosen
        ]
        for append, verdict in zip(appends, await store.append(appends), strict=True):
            if verdict:
                won += 1
                known[append.run_id] = append.control.version
                continue
            lost += 1
            found = await store.read_run(append.run_id, after=(1 << 62))
            assert found is not None
            known[append.run_id] = found.control.version
    await store.close()
    return Outcome(won, lost)
