"""The journal as the `eventsourcing` library sees it, by the library's own test cases and ours.

Run: `ApplicationRecorderTestCase` and `NonInterleavingNotificationIDsBaseCase`, all of both. Not run:

* `AggregateRecorderTestCase`: wants `insert_events` to answer `None`; the library's own application recorder
  fails that case too.
* `optional_test_insert_subscribe`: `subscribe` is refused, followers page.
* `TrackingRecorderTestCase`, `ProcessRecorderTestCase`, `InfrastructureFactoryTestCase`: about recorders,
  ciphers and compressors that the journal doesn't use.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import pytest
from eventsourcing.application import Application
from eventsourcing.persistence import IntegrityError, NotSupportedError, OperationalError, StoredEvent

from abeyance.errors import ConfigurationError
from abeyance.journal.postgres import PostgresJournalStore
from abeyance.journal.postgres.recorder import JournalPostgresRecorder, open_recorder
from abeyance.journal.store import Append
from tests.integration.postgres.samples import new_append, new_contents, new_run

# The library's module of test cases imports its cipher, for cases that are not run here, and that imports a
# second cryptography package, which this project doesn't need.
with patch.dict(sys.modules, {"eventsourcing.cipher": ModuleType("eventsourcing.cipher")}):
    sys.modules["eventsourcing.cipher"].AESCipher = object  # type: ignore[attr-defined]
    from eventsourcing.tests import persistence


@pytest.fixture
def recorder(journal_url: str) -> Iterator[JournalPostgresRecorder]:
    running = set(threading.enumerate())
    opened = open_recorder(journal_url)
    pool = set(threading.enumerate()) - running
    yield opened
    # The library's cases stop their readers without waiting for them.
    for thread in set(threading.enumerate()) - running - pool:
        thread.join(10)
    opened.datastore.close()


def stored_events(append: Append) -> list[StoredEvent]:
    return [StoredEvent(*event) for event in append.events]


class TestConformance:
    """The library's cases, each over a fresh database."""

    @pytest.fixture
    def case(self, recorder: JournalPostgresRecorder) -> "persistence.ApplicationRecorderTestCase[Any]":
        class Case(persistence.ApplicationRecorderTestCase[Any]):
            def create_recorder(self) -> JournalPostgresRecorder:
                return recorder

        return Case("test_insert_select")

    @pytest.mark.parametrize("name", ["test_insert_select", "test_performance", "test_concurrent_throughput"])
    def test_application_recorder(
        self, case: "persistence.ApplicationRecorderTestCase[Any]", name: str
    ) -> None:
        getattr(case, name)()

    @pytest.mark.slow
    def test_many_writers_at_once(self, case: "persistence.ApplicationRecorderTestCase[Any]") -> None:
        case.test_concurrent_no_conflicts()

    @pytest.mark.slow
    def test_ids_dont_interleave(self, recorder: JournalPostgresRecorder) -> None:
        class Case(persistence.NonInterleavingNotificationIDsBaseCase):
            def create_recorder(self) -> JournalPostgresRecorder:
                return recorder

        Case("test").test()


class TestAppends:
    def test_the_rows_of_an_append_go_in_with_its_events(self, recorder: JournalPostgresRecorder) -> None:
        append = new_append(new_run(), count=3)
        append = replace(append, contents=new_contents(append.run_id, [1, 3]))

        assert [1, 2, 3] == recorder.insert_events(stored_events(append), appends=[append])

        assert stored_events(append) == recorder.select_events(append.run_id)
        with recorder.datastore.get_connection() as connection:
            counted = connection.execute("SELECT count(content) AS n FROM journal_events").fetchone()
        assert {"n": 2} == counted

    def test_a_loser_takes_everybody_with_it(self, recorder: JournalPostgresRecorder) -> None:
        old, new = new_append(new_run()), new_append(new_run())
        recorder.insert_events(stored_events(old), appends=[old])

        with pytest.raises(IntegrityError):
            recorder.insert_events(stored_events(old) + stored_events(new), appends=[old, new])

        assert [] == recorder.select_events(new.run_id)

    def test_other_events_than_the_appends_are_a_mistake(self, recorder: JournalPostgresRecorder) -> None:
        append = new_append(new_run())

        with pytest.raises(ValueError, match="appends"):
            recorder.insert_events(stored_events(new_append(new_run())), appends=[append])

    @pytest.mark.anyio
    async def test_the_store_and_the_recorder_see_one_journal(
        self, recorder: JournalPostgresRecorder, store: PostgresJournalStore
    ) -> None:
        append = new_append(new_run(), count=2)
        await store.append([append])

        assert stored_events(append) == recorder.select_events(append.run_id)
        assert [] == recorder.select_notifications(1, 10)
        while await store.seal(10) < 2:
            pass
        assert [1, 2] == [item.id for item in recorder.select_notifications(1, 10)]

    def test_a_connection_that_was_lost_after_the_commit_is_judged_by_the_bytes(
        self, recorder: JournalPostgresRecorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from abeyance.journal.postgres import recorder as module

        written = module._write

        def write_and_lose(*given: object) -> None:
            written(*given)  # type: ignore[arg-type]
            raise psycopg.OperationalError("lost")

        monkeypatch.setattr(module, "_write", write_and_lose)
        append = new_append(new_run())
        assert [1] == recorder.insert_events(stored_events(append), appends=[append])

        monkeypatch.setattr(
            module, "_write", lambda *_: (_ for _ in ()).throw(psycopg.OperationalError("lost"))
        )
        with pytest.raises(OperationalError):
            recorder.insert_events(stored_events(new_append(new_run())))

    def test_without_a_sealed_index_there_are_no_ids(
        self, recorder: JournalPostgresRecorder, journal_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("abeyance.journal.postgres.recorder.SEAL_TIMEOUT_S", 0.05)
        append = new_append(new_run())
        with psycopg.connect(journal_url) as writer:
            writer.execute("SELECT pg_current_xact_id()")

            assert recorder.insert_events(stored_events(append), appends=[append]) is None

        assert stored_events(append) == recorder.select_events(append.run_id)


class TestSettings:
    def test_importing_the_library_leaves_psycopgs_loggers_alone(self) -> None:
        script = (
            "import logging, psycopg, psycopg_pool\n"
            "loggers = [logging.getLogger(name) for name in ('psycopg', 'psycopg.pool')]\n"
            "before = [logger.level for logger in loggers]\n"
            "import abeyance.journal.postgres.recorder\n"
            "assert before == [logger.level for logger in loggers]\n"
        )

        assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode

    def test_subscribing_is_refused(self, recorder: JournalPostgresRecorder) -> None:
        with pytest.raises(NotSupportedError):
            recorder.subscribe()

    def test_a_database_without_tables_is_refused(self, postgres_url: str) -> None:
        with pytest.raises(ConfigurationError, match="db migrate"):
            open_recorder(postgres_url)

    def test_the_librarys_functions_are_refused(self, journal_url: str) -> None:
        with pytest.raises(ConfigurationError, match="POSTGRES_ENABLE_DB_FUNCTIONS"):
            make_application(journal_url, POSTGRES_ENABLE_DB_FUNCTIONS="y")

    def test_an_application_of_the_library_runs_on_the_journal(self, journal_url: str) -> None:
        run = uuid4()
        with make_application(journal_url) as application:
            assert [1] == application.recorder.insert_events([StoredEvent(run, 1, "started", b"x")])
            assert [1] == [item.id for item in application.notification_log.select(1, 10)]


def make_application(url: str, **settings: str) -> "Application[UUID]":
    info = psycopg.conninfo.conninfo_to_dict(url)

    class Journal(Application[UUID]):
        name = "journal"

    return Journal(
        env={
            "PERSISTENCE_MODULE": "abeyance.journal.postgres.recorder:JournalPostgresFactory",
            "POSTGRES_DBNAME": str(info["dbname"]),
            "POSTGRES_HOST": str(info["host"]),
            "POSTGRES_PORT": str(info.get("port", "")),
            "POSTGRES_USER": str(info["user"]),
            "POSTGRES_PASSWORD": str(info.get("password", "")),
            **settings,
        }
    )
