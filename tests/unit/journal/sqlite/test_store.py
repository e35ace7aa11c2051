"""What only SQLite's store promises: files, one process, faults of the disk, damage seen."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from abeyance.errors import ConfigurationError, HistoryDamagedError, StoreUnavailableError, VerificationError
from abeyance.journal.sqlite import SQLiteJournalStore, open_sqlite
from abeyance.journal.store import ClaimRequest
from abeyance.world import SystemWorld
from tests.contract.rows import DEFINITION, content, follow, link, new_id, start, wait

pytestmark = pytest.mark.anyio


def tamper(store: SQLiteJournalStore, statement: str, *values: object) -> None:
    """Change a row behind the store's back."""
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


class TestFiles:
    async def test_all_of_them_are_private(self, store: SQLiteJournalStore) -> None:
        await store.append([start()])

        modes = {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}

        assert {"journal.lock", "journal.sqlite3", "journal.sqlite3-shm", "journal.sqlite3-wal"} == set(modes)
        assert {0o600} == set(modes.values())
        assert 0o700 == store.path.parent.stat().st_mode & 0o777

    @pytest.mark.case("J07")
    async def test_a_second_store_is_told_to_use_postgresql(self, store: SQLiteJournalStore) -> None:
        with pytest.raises(ConfigurationError, match="PostgreSQL"):
            await open_sqlite(store.path.parent, SystemWorld())

        assert [True] == await store.append([start()])

    @pytest.mark.case("J02")
    async def test_a_network_disk_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="nfs"):
            await open_sqlite(tmp_path / "journal", SystemWorld(), filesystem_type=lambda _: "nfs")

    @pytest.mark.case("J07")
    async def test_a_file_that_was_replaced_takes_nothing_more(self, store: SQLiteJournalStore) -> None:
        moved = store.path.rename(store.path.with_suffix(".moved"))
        with pytest.raises(StoreUnavailableError, match="moved or replaced"):
            await store.check_writable()
        store.path.write_bytes(moved.read_bytes())
        with pytest.raises(StoreUnavailableError, match="moved or replaced"):
            await store.check_writable()

        store.path.unlink()
        moved.rename(store.path)
        await store.check_writable()

    async def test_a_file_that_isnt_a_database_is_a_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "journal.sqlite3").write_bytes(
            b"my shopping list, which is long enough to be a header" * 9
        )

        with pytest.raises(StoreUnavailableError, match="isn't a database"):
            await open_sqlite(tmp_path, SystemWorld())
        with pytest.raises(StoreUnavailableError, match="isn't a database"):
            await open_sqlite(tmp_path, SystemWorld())

    async def test_a_closed_store_leaves_one_whole_file(self, tmp_path: Path) -> None:
        store = await open_sqlite(tmp_path, SystemWorld())
        first = start()
        await store.append([first])
        await store.close()

        assert {"journal.lock", "journal.sqlite3"} == {path.name for path in tmp_path.iterdir()}
        again = await open_sqlite(tmp_path, SystemWorld())
        assert await again.read_run(first.run_id) is not None
        await again.close()

    async def test_the_log_is_emptied_unless_a_reader_holds_it(self, store: SQLiteJournalStore) -> None:
        await store.append([start()])
        log = store.path.with_name("journal.sqlite3-wal")
        reader = sqlite3.connect(store.path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sealer").fetchall()
        await store.append([start()])

        assert not await store.checkpoint()
        reader.close()
        assert await store.checkpoint()
        assert 0 == log.stat().st_size


class TestDurability:
    @pytest.mark.case("J05")
    async def test_what_was_acknowledged_outlives_kill_9(self, tmp_path: Path) -> None:
        program = (
            "import asyncio, os, sys; from pathlib import Path\n"
            "from abeyance.journal.sqlite import open_sqlite; from abeyance.world import SystemWorld\n"
            "from tests.contract.rows import start\n"
            "async def main():\n"
            "    store = await open_sqlite(Path(sys.argv[1]), SystemWorld())\n"
            "    for _ in range(20):\n"
            "        first = start(); await store.append([first]); print(first.run_id.hex, flush=True)\n"
            "    os.kill(os.getpid(), 9)\n"
            "asyncio.run(main())\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        run = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, str(tmp_path)],
            capture_output=True,
            env=environment,
        )
        acknowledged = [UUID(line) for line in run.stdout.decode().split()]

        store = await open_sqlite(tmp_path, SystemWorld())
        found = [await store.read_run(each) is not None for each in acknowledged]
        await store.close()

        assert [True] * 20 == found


class TestStart:
    async def test_the_leases_of_a_dead_process_end(self, tmp_path: Path) -> None:
        store = await open_sqlite(tmp_path, SystemWorld())
        far = 1 << 60
        held = start(status="suspended", lease_id=new_id(), lease_until=far, due=far)
        ended = start(status="completed", lease_id=new_id(), lease_until=far, due=far)
        await store.append([held, ended])
        await store.close()

        again = await open_sqlite(tmp_path, SystemWorld())
        now = await again.now()
        request = ClaimRequest(now, now + 1, 5, [new_id() for _ in range(5)], [DEFINITION])
        claims = await again.claim(request)
        over = await again.read_run(ended.run_id)
        await again.close()

        assert [held.run_id] == [claim.run_id for claim in claims]
        assert over is not None
        assert (None, None) == (over.control.due, over.control.lease_id)


class TestFaults:
    @pytest.mark.case("J01")
    async def test_a_busy_store_takes_nothing_and_reads_go_on(self, store: SQLiteJournalStore) -> None:
        first = start()
        await store.append([first])
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailableError):
            await store.append([follow(first.control)])
        with pytest.raises(StoreUnavailableError):
            await store.check_writable()

        assert await store.read_run(first.run_id) is not None
        other.close()
        assert [True] == await store.append([follow(first.control)])

    @pytest.mark.case("J01")
    async def test_a_commit_in_between_makes_no_writer_fail(self, tmp_path: Path) -> None:
        """A transaction that reads and then writes fails at once if it didn't ask for the lock first."""
        store = await open_sqlite(tmp_path, SystemWorld(), busy_timeout_s=30)
        first = start()
        await store.append([first])
        stop = threading.Event()

        def disturb() -> None:
            connection = sqlite3.connect(store.path, isolation_level=None, timeout=5)
            for _ in range(50):
                connection.execute("UPDATE sealer SET size = size")
            connection.close()
            stop.set()

        disturbing = asyncio.create_task(asyncio.to_thread(disturb))
        control, wins = first.control, 0
        while not stop.is_set():
            move = follow(control)
            assert [True] == await store.append([move])
            control, wins = move.control, wins + 1
        await disturbing

        found = await store.read_run(first.run_id)
        assert found is not None
        assert 1 + wins == found.control.version == len(found.events)
        await store.close()

    async def test_a_full_disk_takes_nothing_and_works_later(self, store: SQLiteJournalStore) -> None:
        first = start()
        await store._writer.run(lambda cursor: cursor.execute("PRAGMA max_page_count = 1").fetchall())
        big = content(first.run_id, 1)._replace(blob=bytes(1 << 20))

        with pytest.raises(StoreUnavailableError, match="full"):
            await store.append([replace(first, contents=(big,))])

        assert await store.read_run(first.run_id) is None
        await store._writer.run(lambda cursor: cursor.execute("PRAGMA max_page_count = 1000000").fetchall())
        assert [True] == await store.append([first])


class TestDamage:
    async def test_a_wait_whose_event_is_gone_is_loud(self, store: SQLiteJournalStore) -> None:
        first = start(events=2)
        run = first.run_id
        opened, token = wait(run, 1), link(run, 1)
        await store.append([replace(first, waits=(opened,), links=(token,))])
        tamper(store, "DELETE FROM journal_events WHERE originator_version = 1")

        with pytest.raises(HistoryDamagedError, match=str(run)):
            await store.find_link(token.digest)
        with pytest.raises(HistoryDamagedError, match=str(run)):
            await store.read_record(run)

    async def test_a_run_without_any_event_is_loud(self, store: SQLiteJournalStore) -> None:
        first = start()
        await store.append([first])
        tamper(store, "DELETE FROM journal_events")

        with pytest.raises(HistoryDamagedError, match=str(first.run_id)):
            await store.read_record(first.run_id)

    @pytest.mark.case("I03")
    async def test_the_primary_key_is_the_second_line(self, store: SQLiteJournalStore) -> None:
        first = start(events=2)
        await store.append([first])
        tamper(store, "UPDATE run_control SET version = 1")
        behind = first.control._replace(version=1)

        assert [False, True] == await store.append([follow(behind), start()])

        found = await store.read_run(first.run_id)
        assert found is not None
        assert (behind, list(first.events)) == (found.control, found.events)

    async def test_a_link_that_exists_makes_only_its_append_lose(self, store: SQLiteJournalStore) -> None:
        first, second = start(), start()
        token = link(first.run_id, 1)
        await store.append([replace(first, links=(token,))])
        again = replace(second, links=(token._replace(run_id=second.run_id),))

        assert [True, False, True] == await store.append([start(), again, start()])
        assert await store.read_run(second.run_id) is None

    async def test_a_definition_that_was_changed_is_loud(self, store: SQLiteJournalStore) -> None:
        await store.put_definition(bytes(32), b"not what this digest is of")

        with pytest.raises(VerificationError, match="digest"):
            await store.get_definition(bytes(32))

    async def test_a_sealed_event_that_is_gone_leaves_its_index(self, store: SQLiteJournalStore) -> None:
        runs = [start(events=100) for _ in range(4)]
        await store.append(runs)
        await store.seal(1_000)
        before = await store.read_sealed(0, 1_000)
        tamper(store, "DELETE FROM journal_events WHERE originator_id = ?", runs[1].run_id.hex)

        kept = [each for each in before if each.event.run_id != runs[1].run_id]
        assert kept == await store.read_sealed(0, 1_000)
        assert kept[95:100] == await store.read_sealed(95, 100)
        assert kept[150:160] == await store.read_sealed(250, 10)


class TestHints:
    async def test_a_slow_listener_loses_the_oldest(self, store: SQLiteJournalStore) -> None:
        hints = store.hints()
        runs = [new_id() for _ in range(10_003)]

        await store.hint(runs)

        assert runs[3] == await anext(hints)

    async def test_closing_ends_every_listener(self, store: SQLiteJournalStore) -> None:
        hints = store.hints()
        waiting = asyncio.create_task(anext(hints, None))
        await asyncio.sleep(0)

        await store.close()

        assert await waiting is None
        assert [] == [run async for run in hints]
