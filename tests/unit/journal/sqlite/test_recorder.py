"""The recorder through the library: an `Application`, time travel, notifications, the swap as a keyword."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.persistence import IntegrityError, ProgrammingError, StoredEvent

from abeyance.journal.sqlite import JournalSQLiteRecorder
from abeyance.journal.sqlite.recorder import JournalDatastore
from abeyance.journal.sqlite.sealing import seal
from abeyance.journal.store import Append
from tests.contract.rows import follow, new_id, start


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[JournalSQLiteRecorder]:
    opened = JournalSQLiteRecorder(JournalDatastore(tmp_path / "journal.sqlite3"))
    opened.create_table()
    yield opened
    opened.datastore.close()


def stored(append: Append) -> list[StoredEvent]:
    return [StoredEvent(*event) for event in append.events]


def seal_all(recorder: JournalSQLiteRecorder) -> None:
    with recorder.datastore.transaction(commit=True) as cursor:
        seal(cursor.sqlite_cursor, 1_000)


class TestInsertEvents:
    def test_winners_events_have_the_ids_that_sealing_gives_them(
        self, recorder: JournalSQLiteRecorder
    ) -> None:
        first, second = start(events=2), start(events=3)
        recorder.insert_events(stored(first), appends=[first])
        seal_all(recorder)

        ids = recorder.insert_events(stored(second), appends=[second])
        seal_all(recorder)

        assert [3, 4, 5] == ids
        found = recorder.select_notifications(start=3, limit=9)
        assert [(3, second.run_id), (4, second.run_id), (5, second.run_id)] == [
            (each.id, each.originator_id) for each in found
        ]

    def test_a_lost_append_is_the_librarys_conflict_and_writes_nothing(
        self, recorder: JournalSQLiteRecorder
    ) -> None:
        first, other = start(), start()
        recorder.insert_events(stored(first), appends=[first])
        late = follow(first.control._replace(lease_id=new_id()))

        with pytest.raises(IntegrityError, match="decide again"):
            recorder.insert_events(stored(other) + stored(late), appends=[other, late])

        assert [] == recorder.select_events(other.run_id)

    def test_a_batch_of_appends_says_who_won(self, recorder: JournalSQLiteRecorder) -> None:
        first = start()

        assert [True] == recorder.insert_appends([first])
        assert [False, True] == recorder.insert_appends([first, start()])

    def test_events_that_arent_the_appends_are_a_mistake(self, recorder: JournalSQLiteRecorder) -> None:
        with pytest.raises(ProgrammingError):
            recorder.insert_events(stored(start()), appends=[start()])
        with pytest.raises(ProgrammingError, match="UUID"):
            recorder.insert_events([StoredEvent("text", 1, "started", b"")])

    def test_notifications_wait_for_the_sealer(self, recorder: JournalSQLiteRecorder) -> None:
        recorder.insert_events(stored(start(events=2)))

        assert [] == recorder.select_notifications(start=None, limit=9)
        assert recorder.max_notification_id() is None
        seal_all(recorder)
        assert [1, 2] == [each.id for each in recorder.select_notifications(start=None, limit=9)]
        assert 2 == recorder.max_notification_id()

    def test_topics_are_found_far_apart(self, recorder: JournalSQLiteRecorder) -> None:
        run = new_id()
        topics = ["completed" if version % 900 == 0 else "call-started" for version in range(1, 2_001)]
        events = [StoredEvent(run, version, topic, b"") for version, topic in enumerate(topics, start=1)]
        recorder.insert_events(events)
        for _ in range(2):
            seal_all(recorder)

        found = recorder.select_notifications(start=1, limit=9, topics=["completed"])

        assert [900, 1_800] == [each.id for each in found]
        assert [] == recorder.select_notifications(start=1, limit=9, stop=899, topics=["completed"])

    def test_subscriptions_are_not_there(self, recorder: JournalSQLiteRecorder) -> None:
        with pytest.raises(NotImplementedError):
            recorder.subscribe()


@dataclass(frozen=True)
class Noted:
    """An event as the library wants it."""

    originator_id: UUID
    originator_version: int
    text: str


@dataclass(frozen=True)
class Notes:
    """What `Noted` events add up to."""

    texts: tuple[str, ...] = ()
    version: int = 0


def project(notes: Any, events: Iterable[Any]) -> Any:
    state = None
    for event in events:
        state = replace(
            state or Notes(), texts=(*(state or Notes()).texts, event.text), version=event.originator_version
        )
    return state


class TestApplication:
    """An application of the library, with its own mapper, on the journal's tables."""

    @pytest.fixture
    def application(self, tmp_path: Path) -> Iterator[Application[UUID]]:
        env = {
            "PERSISTENCE_MODULE": "abeyance.journal.sqlite.recorder:JournalSQLiteFactory",
            "SQLITE_DBNAME": str(tmp_path / "journal.sqlite3"),
        }
        with Application[UUID](env=env) as opened:
            yield opened

    def test_a_stream_is_rebuilt_as_of_any_version(self, application: Application[UUID]) -> None:
        stream = new_id()
        application.save(Noted(stream, 1, "one"), Noted(stream, 2, "two"))
        application.save(Noted(stream, 3, "three"))

        newest = application.repository.get(stream, projector_func=project)
        earlier = application.repository.get(stream, version=2, projector_func=project)

        assert (Notes(("one", "two", "three"), 3), Notes(("one", "two"), 2)) == (newest, earlier)
        with pytest.raises(AggregateNotFoundError):
            application.repository.get(new_id(), projector_func=project)

    def test_a_follower_pages_through_what_is_sealed(self, application: Application[UUID]) -> None:
        stream = new_id()
        application.save(*(Noted(stream, version, str(version)) for version in range(1, 8)))
        assert isinstance(application.recorder, JournalSQLiteRecorder)
        seal_all(application.recorder)
        position, found = 0, []

        while page := application.notification_log.select(position, 3, inclusive_of_start=False):
            found += [application.mapper.to_domain_event(each) for each in page]
            position = page[-1].id

        assert [str(version) for version in range(1, 8)] == [getattr(each, "text", None) for each in found]

    def test_a_conflict_is_the_librarys_own(self, application: Application[UUID]) -> None:
        stream = new_id()
        application.save(Noted(stream, 1, "one"))

        with pytest.raises(IntegrityError):
            application.save(Noted(stream, 1, "another"))

    def test_its_connections_are_as_durable_as_the_stores(self, application: Application[UUID]) -> None:
        assert isinstance(application.recorder, JournalSQLiteRecorder)
        with application.recorder.datastore.transaction(commit=True) as cursor:
            cursor.execute("PRAGMA synchronous")
            assert (2,) == tuple(cursor.fetchone())
