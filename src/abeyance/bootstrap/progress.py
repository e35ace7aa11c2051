"""Progress of long work: a bar on stderr at a terminal, nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to tell how much is done, and of how much."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(
            task, completed=done, total=total or None, description=f"{what}: {done}"
        )


@contextmanager
def shown_count(what: str) -> Iterator[Callable[[int], None]]:
    """A function to tell how much is done, where nobody knows of how much."""
    with shown_progress(what) as progress:
        yield lambda done: progress(done, 0)
