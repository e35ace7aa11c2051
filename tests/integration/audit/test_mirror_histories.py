"""A mirror through random growth and kills: after each, it is the log of a checkpoint that was signed."""

import asyncio
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from abeyance.audit.mirror import Mirror
from abeyance.audit.mirror_files import MirrorFiles
from abeyance.journal.sqlite import open_sqlite, open_sqlite_keys
from tests.support.logs import CODEC, OpenLog, answered_run, open_log
from tests.support.mirrors import FaultyOs, Killed, read_mirror
from tests.unit.projections.histories import FixedWorld

# How many runs are written, and at which file operation the process is killed.
STEPS = st.lists(
    st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 60))), min_size=1, max_size=5
)


async def live(folder: Path, steps: Sequence[tuple[int, int | None]]) -> None:
    world = FixedWorld(b"mirror")
    journal = await open_sqlite(folder / "journal", world)
    keys = await open_sqlite_keys(folder / "keys", bytes(32), world)
    (folder / "mirror").mkdir()
    try:
        opened = open_log(journal, keys)
        await opened.open()
        await follow(opened, folder / "mirror", steps)
    finally:
        await journal.close()
        await keys.close()


async def follow(opened: OpenLog, folder: Path, steps: Sequence[tuple[int, int | None]]) -> None:
    mirror, run, signed, size = None, 0, [0], 0
    for count, kill_at in steps:
        await opened.write(*(answered_run(number) for number in range(run + 1, run + count + 1)))
        run += count
        signed.append((await opened.log.head()).size)
        mirror = mirror or Mirror(opened.log, opened.journal, CODEC, MirrorFiles(folder))
        if kill_at is None:
            await mirror.advance()
        else:
            with FaultyOs(kill_at), contextlib.suppress(Killed):
                await mirror.advance()
            mirror = None
        before, size = size, len(read_mirror(folder, opened.log.key))
        assert size in signed
        assert size >= before
        assert kill_at is not None or size == signed[-1]


class TestMirror:
    @settings(max_examples=12)
    @given(steps=STEPS)
    def test_it_is_always_the_log_of_a_checkpoint(self, steps: Sequence[tuple[int, int | None]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(live(Path(folder), steps))
