"""Waiting for a run to end or suspend, and showing it."""

import time
from collections.abc import Iterator
from itertools import chain, repeat

import typer

from abeyance.cli.output import print_json, say
from abeyance.cli.sentences import sentences, state
from abeyance.client import Client, ConnectionFailed, RateLimited, Run, Unavailable

PAUSES_S = (0.02, 0.05, 0.1, 0.25, 0.5)
SLOWEST_S = 1.0
GIVE_UP_AFTER = 5
_UNDERWAY = frozenset({"pending", "running"})


def follow(client: Client, run: Run) -> Run:
    """Read the run until it has ended or waits; gives up after five failed reads in a row.

    Interrupted, it says that the run goes on and exits with 130.
    """
    pauses = chain(PAUSES_S, repeat(SLOWEST_S))
    try:
        while run.status in _UNDERWAY:
            time.sleep(next(pauses))
            run = _read(client, run.id, pauses)
    except KeyboardInterrupt:
        say(f"Interrupted. Run {run.id} goes on: abeyance runs get {run.id}")
        raise typer.Exit(130) from None
    return run


def show(run: Run) -> None:
    """Print the run on stdout, then on stderr what it waits for or why it failed."""
    print_json(run.source)
    for sentence in sentences(run) or ([state(run)] if run.failure else []):
        say(sentence)


def _read(client: Client, run_id: str, pauses: Iterator[float]) -> Run:
    for _ in range(GIVE_UP_AFTER - 1):
        try:
            return client.runs.get(run_id)
        except (RateLimited, Unavailable) as busy:
            time.sleep(busy.retry_after_s or next(pauses))
        except ConnectionFailed:
            time.sleep(SLOWEST_S)
    return client.runs.get(run_id)
