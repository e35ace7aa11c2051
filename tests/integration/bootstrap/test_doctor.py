"""`abeyance doctor`: trouble is told where it is, what is sound is told to be, and nothing is touched."""

import asyncio
import http.server
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from abeyance.bootstrap import examine
from abeyance.bootstrap.doctor import CHECKS, disk, examine_without_settings, journal
from abeyance.bootstrap.keys import make_keys
from abeyance.bootstrap.opening import open_engine
from abeyance.bootstrap.stores import open_stores
from abeyance.engine.service import ListRuns, StartRun
from abeyance.errors import ConfigurationError
from abeyance.settings import Settings
from abeyance.world import SystemWorld
from tests.support.pages import ROOT

pytestmark = pytest.mark.anyio
SHOP = ROOT / "examples" / "shop"


class Place:
    """A deployment's settings on one store; the keys are made."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        self.folder = folder
        self.database_url = database_url
        make_keys(folder / "keys")

    def settings(self, **more: object) -> Settings:
        given: dict[str, object] = {
            "data_dir": self.folder / "data",
            "database_url": self.database_url,
            "key_dir": self.folder / "keys",
            "origin": "shop.example.com/runs",
            "api_key": "k" * 32,
            "pack": "shop",
            "project_dir": SHOP,
        }
        return Settings.load({}, given | more)

    def files(self) -> set[tuple[str, int, int]]:
        return {
            (str(file), file.stat().st_size, file.stat().st_mtime_ns)
            for file in self.folder.rglob("*")
            if file.is_file()
        }

    async def start_a_run(self) -> None:
        async with open_engine(self.settings(), public_url=lambda: "http://public.example") as engine:
            view = await engine.runs.start(
                StartRun(kind="flow", id="shop.ship-order", input=b'{"orderId":"ord_1"}')
            )
            assert "suspended" == view.status


@pytest.fixture
def place(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(tmp_path, request.getfixturevalue("postgres_url") if store_kind == "postgres" else None)


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(tmp_path, None)


def states(lines: list[dict[str, str]]) -> dict[str, set[str]]:
    """The states of each check's lines."""
    found: dict[str, set[str]] = {}
    for line in lines:
        found.setdefault(line["check"], set()).add(line["state"])
    return found


def wrongs(lines: list[dict[str, str]]) -> dict[str, str]:
    """What is wrong, and what to do about it."""
    return {line["check"]: f"{line['says']}; {line.get('do')}" for line in lines if line["state"] == "wrong"}


async def look(settings: Settings) -> list[dict[str, str]]:
    return await asyncio.to_thread(examine, settings)


class TestSound:
    async def test_a_new_store_is_fine_and_stays_unmade(self, place: Place) -> None:
        before = place.files()

        lines = await look(place.settings())

        assert {} == wrongs(lines)
        assert {"note"} <= states(lines)["log"]
        assert before == place.files()
        if place.database_url:
            with psycopg.connect(place.database_url) as connection:
                assert (0,) == connection.execute(
                    "SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'abeyance_keys')"
                ).fetchone()

    async def test_a_store_with_runs_is_fine_and_nothing_is_touched(self, place: Place) -> None:
        await place.start_a_run()
        before = place.files()

        lines = await look(place.settings())

        assert {} == wrongs(lines)
        assert "its name is shop.example.com/runs" in [line["says"] for line in lines]
        assert {"the master key opens it", "it has the key of the newest run"} == {
            line["says"] for line in lines if line["check"] == "key store"
        }
        assert before == place.files()

    async def test_it_works_beside_the_process_that_has_the_store(self, place: Place) -> None:
        async with open_stores(place.settings()):
            lines = await look(place.settings())

        assert {} == wrongs(lines)
        if place.database_url is None:
            assert f"process {os.getpid()} has it open" in str(lines)

    async def test_a_copy_of_the_folders_of_a_stopped_server_is_a_whole_backup(self, local: Place) -> None:
        """As `docs/how-to/operate-a-server.md` has it: the data folder, and the folder of the keys."""
        await local.start_a_run()
        copy = local.folder / "copy"
        for name in ("data", "keys"):
            shutil.copytree(local.folder / name, copy / name)
        restored = local.settings(data_dir=copy / "data", key_dir=copy / "keys")

        lines = await look(restored)

        assert {} == wrongs(lines)
        assert "it has the key of the newest run" in str(lines)
        async with open_engine(restored, public_url=lambda: "http://public.example") as engine:
            page = await engine.runs.list(ListRuns())
            assert ["suspended"] == [view.status for view in page.data]

    async def test_what_was_not_looked_at_is_said(self, place: Place) -> None:
        lines = await look(place.settings(public_url="http://127.0.0.1:9"))

        unseen = {line["check"] for line in lines if line["state"] == "unseen"}
        assert {"clock", "public address"} | ({"disk"} if place.database_url else set()) == unseen

    async def test_a_new_project_needs_nothing_for_dev(self, tmp_path: Path) -> None:
        settings = Settings.load({}, {"data_dir": tmp_path / "data", "pack": "shop", "project_dir": SHOP})

        lines = await look(settings)

        assert ({}, []) == (wrongs(lines), os.listdir(tmp_path))
        assert "`abeyance dev` has what it needs" in str(lines)


class TestStore:
    async def test_a_database_that_is_away_is_told_once(self, local: Place) -> None:
        lines = await look(local.settings(database_url="postgresql://me:geheim@127.0.0.1:1/runs"))

        assert {"store"} == set(wrongs(lines))
        assert "nobody listens at its address" in str(lines)
        assert {"unseen"} == states(lines)["keys"] | states(lines)["key store"] | states(lines)["clock"]
        assert "geheim" not in str(lines)

    async def test_another_program_s_file_is_told(self, local: Place) -> None:
        file = local.folder / "other.db"
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        connection.close()

        assert (
            "another program's database"
            in wrongs(await look(local.settings(database_url=f"sqlite:///{file}")))["store"]
        )

    async def test_what_is_no_database_is_told(self, local: Place) -> None:
        file = local.folder / "other.db"
        file.write_bytes(b"no database" * 100)

        assert "store" in wrongs(await look(local.settings(database_url=f"sqlite:///{file}")))

    async def test_tables_of_a_newer_release_are_wrong_and_older_ones_are_migrated(
        self, local: Place
    ) -> None:
        await local.start_a_run()
        file = local.settings().journal_file
        assert file is not None
        for version, state in ((99, "wrong"), (1, "note")):
            with sqlite3.connect(file) as connection:
                connection.execute("UPDATE schema_version SET version = ?", (version,))
            connection.close()

            assert state in states(await look(local.settings()))["tables"]

    async def test_another_origin_is_wrong_and_a_new_store_needs_one(self, place: Place) -> None:
        assert "ABEYANCE_ORIGIN is not set" in wrongs(await look(place.settings(origin=None)))["log"]
        await place.start_a_run()

        assert {} == wrongs(await look(place.settings(origin=None)))
        assert "an origin never changes" in wrongs(await look(place.settings(origin="other.example")))["log"]


class TestKeys:
    async def test_keys_that_others_can_read_are_told(self, local: Place) -> None:
        (local.folder / "keys" / "master.key").chmod(0o640)

        assert "master.key can be read by others; chmod 600" in wrongs(await look(local.settings()))["keys"]

    async def test_a_key_that_is_gone_is_told(self, local: Place) -> None:
        (local.folder / "keys" / "event.pem").unlink()

        assert "can't be read" in wrongs(await look(local.settings()))["keys"]

    async def test_keys_of_another_deployment_are_told(self, place: Place) -> None:
        await place.start_a_run()
        make_keys(place.folder / "others")

        found = wrongs(await look(place.settings(key_dir=place.folder / "others")))

        assert "the root key is another one" in found["keys"]
        assert "master" in found["key store"]

    async def test_a_key_store_that_is_gone_or_older_than_the_journal_is_told(self, local: Place) -> None:
        await local.start_a_run()
        file = local.settings().keys_file
        assert file is not None
        with sqlite3.connect(file) as connection:
            connection.execute("DELETE FROM run_keys")
        connection.close()
        assert "it is older than the journal; restore" in wrongs(await look(local.settings()))["key store"]

        file.unlink()
        assert "the key store has nothing; restore" in wrongs(await look(local.settings()))["key store"]

    async def test_a_journal_that_is_an_old_copy_is_told(self, place: Place) -> None:
        """The log's checkpoint that was kept with the keys says that there was more."""
        await place.start_a_run()
        settings = place.settings()
        if settings.database_url is not None:
            with psycopg.connect(settings.database_url) as server:
                server.execute("UPDATE abeyance_keys.kept_checkpoint SET size = size + 100")
        else:
            assert settings.keys_file is not None
            with sqlite3.connect(settings.keys_file) as connection:
                connection.execute("UPDATE kept_checkpoint SET size = size + 100")
            connection.close()

        assert "the journal is an old copy" in wrongs(await look(settings))["key store"]


class TestMachine:
    async def test_a_clock_behind_what_is_stored_is_wrong(
        self, local: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Yesterday(SystemWorld):
            def now(self) -> datetime:
                return super().now() - timedelta(days=1)

        await local.start_a_run()
        monkeypatch.setattr(journal, "SystemWorld", Yesterday)

        assert "set the clock" in wrongs(await look(local.settings()))["clock"]

    async def test_a_clock_that_differs_from_the_database_s_is_noted(
        self, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Early(SystemWorld):
            def now(self) -> datetime:
                return super().now() - timedelta(seconds=90)

        monkeypatch.setattr(journal, "SystemWorld", Early)
        (line, _) = [
            line for line in await look(Place(tmp_path, postgres_url).settings()) if line["check"] == "clock"
        ]

        assert "note" == line["state"]
        assert any(
            f"{seconds} s behind the database's" in line["says"] for seconds in ("89.9", "90.0", "90.1")
        )

    async def test_a_network_disk_and_a_full_one_are_wrong(
        self, local: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk, "mounted_filesystem", lambda path: "nfs4")
        assert "nfs4" in wrongs(await look(local.settings()))["disk"]

        monkeypatch.undo()
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 20))
        assert "make room" in wrongs(await look(local.settings()))["disk"]

    async def test_a_pack_that_can_not_be_loaded_is_told(self, local: Place) -> None:
        (local.folder / "broken_pack.py").write_text("1 / 0\n")

        found = wrongs(await look(local.settings(pack="broken_pack", project_dir=local.folder)))

        assert "ZeroDivisionError" in found["pack"]

    async def test_what_a_role_lacks_is_told(self, local: Place) -> None:
        assert "ABEYANCE_API_KEY" in wrongs(await look(local.settings(api_key=None)))["settings"]
        worker = await asyncio.to_thread(examine, local.settings(), "worker")
        assert "ABEYANCE_PUBLIC_URL" in wrongs(worker)["settings"]

    def test_wrong_settings_leave_the_rest_unseen(self) -> None:
        lines = examine_without_settings(ConfigurationError("ABEYANCE_PORT: must be a number"))

        assert {"wrong", "unseen", "ok"} == {line.state for line in lines}
        assert {"versions", *CHECKS} == {line.check for line in lines}


@contextmanager
def answering(status: int, body: bytes, headers: Mapping[str, str] = {}) -> Iterator[str]:
    """A server that gives every request this answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/runs"
        server.shutdown()
        thread.join()


class TestPublicAddress:
    @pytest.mark.parametrize(
        ("status", "body", "headers", "state"),
        [
            (404, b'{"error":{"code":"wait-token-not-found"}}', {}, "ok"),
            (429, b'{"error":{"code":"rate-limit-exceeded"}}', {}, "ok"),
            (503, b'{"error":{"code":"tenant-state-unavailable"}}', {}, "note"),
            (200, b"<html>", {}, "wrong"),
            (404, b'{"error":{"code":"not-found"}}', {}, "wrong"),
            (403, b'{"error":"forbidden"}', {}, "wrong"),
            (302, b"", {"Location": "https://login.example/"}, "wrong"),
        ],
    )
    async def test_what_answers_there_is_told(
        self, local: Place, status: int, body: bytes, headers: dict[str, str], state: str
    ) -> None:
        with answering(status, body, headers) as url:
            lines = await look(local.settings(public_url=url))

        assert state in states(lines)["public address"]
        assert ("public address" in wrongs(lines)) == (state == "wrong")

    @pytest.mark.parametrize(
        ("url", "word"), [("http://runs.invalid", "clear text"), ("http://127.0.0.1:9", "this machine alone")]
    )
    async def test_an_address_that_serves_few_is_noted(self, local: Place, url: str, word: str) -> None:
        assert word in str(await look(local.settings(public_url=url)))
