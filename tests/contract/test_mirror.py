"""What a mirror promises over any store: always the log of some checkpoint, never another log."""

import asyncio
import logging
import os
import shutil
from pathlib import Path

import pytest

from abeyance.audit.log import TileRow
from abeyance.audit.mirror import Mirror
from abeyance.audit.mirror_files import MirrorFiles
from abeyance.audit.mirroring import MirrorKeeper
from abeyance.errors import HistoryDamagedError, VerificationError
from abeyance.journal.store import JournalStore, KeyStore
from tests.contract.test_log import delete_event
from tests.support.logs import CODEC, OpenLog, answered_run, open_log
from tests.support.mirrors import FaultyOs, Killed, read_mirror
from tests.unit.projections.histories import Author

pytestmark = pytest.mark.anyio


@pytest.fixture
async def opened(store: JournalStore, keys: KeyStore) -> OpenLog:
    opened = open_log(store, keys)
    await opened.open()
    return opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mirror"
    made.mkdir()
    return made


def mirror_of(opened: OpenLog, folder: Path) -> Mirror:
    return Mirror(opened.log, opened.journal, CODEC, MirrorFiles(folder))


def size_in(opened: OpenLog, folder: Path) -> int:
    return len(read_mirror(folder, opened.log.key))


def runs(first: int, count: int) -> list[Author]:
    return [answered_run(number) for number in range(first, first + count)]


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }


class TestMirror:
    async def test_it_is_the_log_as_tlog_tiles_lays_it_out(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(*runs(1, 90))

        await mirror_of(opened, folder).advance()

        assert 543 == size_in(opened, folder)
        expected = {"checkpoint", "tile/0/000", "tile/0/001", "tile/0/002.p/31", "tile/1/000.p/2"}
        expected |= {"tile/entries/000", "tile/entries/001", "tile/entries/002.p/31"}
        expected |= {f"envelopes/00{number}.jsonl" for number in range(3)}
        assert expected == set(files_in(folder))

    async def test_it_follows_the_log_and_never_rewrites_a_full_tile(
        self, opened: OpenLog, folder: Path
    ) -> None:
        mirror = mirror_of(opened, folder)
        sizes, before = list[int](), dict[str, bytes]()
        written = dict[str, int]()
        for first in range(1, 91, 15):
            await opened.write(*runs(first, 15))
            await mirror.advance()
            sizes.append(size_in(opened, folder))
            for path, data in files_in(folder).items():
                if path != "checkpoint":
                    assert data.startswith(before.get(path, b""))
            before = files_in(folder)
            full = [folder / "tile/0/000", folder / "tile/entries/000", folder / "tile/0/001"]
            for file in full:
                if file.exists():
                    assert written.setdefault(str(file), file.stat().st_ino) == file.stat().st_ino

        assert [93, 183, 273, 363, 453, 543] == sizes
        assert [] == [path for path in before if "000.p/" in path and not path.startswith("tile/1")]
        assert {"tile/0/002.p/31"} == {path for path in before if path.startswith("tile/0/002")}

    async def test_who_follows_an_older_checkpoint_finds_its_tiles(
        self, opened: OpenLog, folder: Path
    ) -> None:
        """A partial tile stays until the full one is there (c2sp.org/tlog-tiles)."""
        mirror = mirror_of(opened, folder)
        for first, size in ((1, 93), (16, 183)):
            await opened.write(*runs(first, 15))
            await mirror.advance()
            if size == 93:
                older = (folder / "checkpoint").read_bytes()

        (folder / "checkpoint").write_bytes(older)

        assert 93 == size_in(opened, folder)

    async def test_a_log_without_a_checkpoint_makes_no_file(self, opened: OpenLog, folder: Path) -> None:
        await mirror_of(opened, folder).advance()

        assert {} == files_in(folder)

    async def test_only_one_process_writes_at_a_time(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(*runs(1, 2))
        mirrors = [mirror_of(opened, folder) for _ in range(4)]
        held = mirrors[0].files.lock()
        await mirrors[1].advance()
        assert held is not None
        assert 0 == size_in(opened, folder)
        os.close(held)

        await asyncio.gather(*(mirror.advance() for mirror in mirrors))

        assert 15 == size_in(opened, folder)

    async def test_it_stops_between_tiles_and_goes_on_later(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(*runs(1, 90))
        mirror = mirror_of(opened, folder)
        asked = iter([False, True])

        await mirror.advance(stop=lambda: next(asked))
        half = set(files_in(folder))
        await mirror.advance(most=500)
        assert half == set(files_in(folder))
        await mirror.advance()

        assert {"tile/0/000", "tile/entries/000", "envelopes/000.jsonl"} == half
        assert 543 == size_in(opened, folder)


class TestContradiction:
    async def test_a_mirror_ahead_of_the_store_is_left_as_it_is(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(answered_run(1))
        old, tile = await opened.log.head(), await opened.store.read_tile(0, 0)
        await opened.write(answered_run(2))
        mirror = mirror_of(opened, folder)
        await mirror.advance()
        before = files_in(folder)
        assert old.note is not None
        assert await opened.store.grow(15, [TileRow(0, 0, tile)], old.size, old.note)

        with pytest.raises(VerificationError, match=r"the mirror .* over 15: .* old copy"):
            await mirror.check()
        with pytest.raises(VerificationError, match="old copy"):
            await mirror.advance()

        assert before == files_in(folder)

    async def test_another_logs_mirror_is_left_as_it_is(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(answered_run(1))
        (folder / "checkpoint").write_text("elsewhere\n1\nAAAA\n\n— elsewhere AAAA\n")
        before = files_in(folder)

        with pytest.raises(VerificationError, match="isn't of this log"):
            await mirror_of(opened, folder).advance()

        assert before == files_in(folder)

    async def test_a_tile_that_was_changed_in_the_store_gets_no_checkpoint(
        self, opened: OpenLog, folder: Path
    ) -> None:
        await opened.write(*runs(1, 50))
        head, tile = await opened.log.head(), await opened.store.read_tile(0, 0)
        changed = TileRow(0, 0, bytes([tile[0] ^ 1]) + tile[1:])
        assert head.note is not None
        assert await opened.store.grow(head.size, [changed], head.size, head.note)

        with pytest.raises(VerificationError, match="doesn't lead to the checkpoint"):
            await mirror_of(opened, folder).advance()

        assert {} == files_in(folder)

    async def test_an_event_that_is_gone_gets_no_checkpoint(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(*runs(1, 2))
        await delete_event(opened.journal, answered_run(2).appends[0].run_id, 2)

        with pytest.raises(HistoryDamagedError, match="isn't stored"):
            await mirror_of(opened, folder).advance()

        assert {} == files_in(folder)

    async def test_a_changed_file_of_the_mirror_is_not_written_over(
        self, opened: OpenLog, folder: Path
    ) -> None:
        await opened.write(*runs(1, 2))
        mirror = mirror_of(opened, folder)
        await mirror.advance()
        file = folder / "envelopes" / "000.jsonl"
        file.write_bytes(file.read_bytes().replace(b'"i":0', b'"i":7'))
        before = files_in(folder)
        await opened.write(answered_run(3))

        with pytest.raises(VerificationError, match=r"envelopes/000\.jsonl"):
            await mirror.advance()

        assert before["checkpoint"] == files_in(folder)["checkpoint"]
        assert before["envelopes/000.jsonl"] == files_in(folder)["envelopes/000.jsonl"]


class TestKills:
    async def test_killed_at_any_file_operation_it_is_the_log_of_a_checkpoint(
        self, opened: OpenLog, folder: Path, tmp_path: Path
    ) -> None:
        """From 93 records to 273, over the edge of a tile."""
        await opened.write(*runs(1, 15))
        await mirror_of(opened, folder).advance()
        await opened.write(*runs(16, 30))
        with FaultyOs() as counting:
            shutil.copytree(folder, tmp_path / "counted")
            await mirror_of(opened, tmp_path / "counted").advance()
        found = set[int]()

        for at in range(counting.count):
            copy = tmp_path / f"killed-{at}"
            shutil.copytree(folder, copy)
            with FaultyOs(at), pytest.raises(Killed):
                await mirror_of(opened, copy).advance()
            found.add(size_in(opened, copy))
            await mirror_of(opened, copy).advance()
            assert 273 == size_in(opened, copy)
            shutil.rmtree(copy)

        assert counting.count > 50
        assert {93, 273} == found

    async def test_what_a_kill_left_behind_goes_with_the_next_checkpoint(
        self, opened: OpenLog, folder: Path
    ) -> None:
        await opened.write(*runs(1, 15))
        await mirror_of(opened, folder).advance()
        await opened.write(*runs(16, 30))
        with FaultyOs() as counting:
            shutil.copytree(folder, folder.with_name("counted"))
            await mirror_of(opened, folder.with_name("counted")).advance()
        with FaultyOs(counting.count - 1), pytest.raises(Killed):  # the removal of the last one
            await mirror_of(opened, folder).advance()
        assert [] != list((folder / "tile" / "entries" / "000.p").iterdir())
        await opened.write(answered_run(46))

        await mirror_of(opened, folder).advance()

        assert not (folder / "tile" / "entries" / "000.p").exists()
        assert 279 == size_in(opened, folder)


class TestKeeper:
    async def test_a_full_disk_is_told_once_and_tried_again(
        self, opened: OpenLog, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await opened.write(*runs(1, 2))
        keeper = MirrorKeeper(mirror_of(opened, folder), lambda: True)
        caplog.set_level(logging.INFO)
        for at in range(3, 12):
            with FaultyOs(at, kill=False):
                await keeper.advance()
            assert 0 == size_in(opened, folder)

        await keeper.advance()

        assert 15 == size_in(opened, folder)
        assert ["WARNING", "INFO"] == [line.levelname for line in caplog.records]

    async def test_a_missing_folder_is_told_once_and_not_made(
        self, opened: OpenLog, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await opened.write(*runs(1, 2))
        keeper = MirrorKeeper(mirror_of(opened, folder), lambda: True)
        folder.rmdir()

        await keeper.advance()
        await keeper.advance()

        assert not folder.exists()
        assert 1 == len(caplog.records)
        folder.mkdir()
        await keeper.advance()
        assert 15 == size_in(opened, folder)

    async def test_a_contradiction_is_an_alarm_and_ends_it(
        self, opened: OpenLog, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await opened.write(answered_run(1))
        (folder / "checkpoint").write_text("another log's\n")
        keeper = MirrorKeeper(mirror_of(opened, folder), lambda: True)

        await keeper.advance()
        await keeper.advance()

        assert keeper.problem is not None
        assert [logging.CRITICAL] == [line.levelno for line in caplog.records]

    async def test_it_runs_where_it_leads_until_it_is_ended(self, opened: OpenLog, folder: Path) -> None:
        await opened.write(*runs(1, 2))
        asked = asyncio.Event()

        def leads() -> bool:
            asked.set()
            return False

        keeper = MirrorKeeper(mirror_of(opened, folder), leads, every_s=0.01)
        task = asyncio.create_task(keeper.run())
        await asked.wait()
        keeper.end()
        await task

        assert {} == files_in(folder)
