"""The recorder against the test cases that the eventsourcing library ships for recorders.

Run here: `ApplicationRecorderTestCase` (all of it) and `NonInterleavingNotificationIDsBaseCase`. They expect
an event to be a notification as soon as it is inserted; the journal's notifications are sealed events, so
the recorder under test seals after each insert, as the sealer does a moment later.

Not run, and why:

* `AggregateRecorderTestCase`: wants `insert_events` to answer `None`; an application recorder answers with
  notification ids, and the library's own SQLite one fails that case too.
* `optional_test_insert_subscribe`: no `subscribe` on SQLite, as in the library; followers page.
* `TrackingRecorderTestCase`, `ProcessRecorderTestCase`: recorders that are not ours.
* `InfrastructureFactoryTestCase`: is about mappers, ciphers and compressors that the journal doesn't use.
"""

import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import defaultTestLoader
from unittest.mock import patch

import pytest
from eventsourcing.persistence import StoredEvent

from abeyance.journal.sqlite import JournalSQLiteRecorder
from abeyance.journal.sqlite.recorder import JournalDatastore
from abeyance.journal.sqlite.sealing import seal

# The library's module of test cases imports its cipher, for cases that are not run here, and that imports a
# second cryptography package, which this project doesn't need.
with patch.dict(sys.modules, {"eventsourcing.cipher": ModuleType("eventsourcing.cipher")}):
    sys.modules["eventsourcing.cipher"].AESCipher = object  # type: ignore[attr-defined]
    from eventsourcing.tests import persistence


class SealingRecorder(JournalSQLiteRecorder):
    """Seals what it inserts."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        ids = super().insert_events(stored_events, **kwargs)
        with self.datastore.transaction(commit=True) as cursor:
            seal(cursor.sqlite_cursor, 1_000_000)
        return ids


def join_others(running: set[threading.Thread]) -> None:
    """Wait for the threads that came since. The cases stop their readers without waiting for them, and the
    interpreter crashes when a connection is closed while another thread uses it.
    """
    for thread in set(threading.enumerate()) - running:
        thread.join(10)


class OnFreshFile:
    """Makes a recorder on a file of its own; the case closes it."""

    def create_recorder(self) -> SealingRecorder:
        running = set(threading.enumerate())
        folder = tempfile.TemporaryDirectory()
        recorder = SealingRecorder(JournalDatastore(Path(folder.name) / "journal.sqlite3"))
        recorder.create_table()
        self.addCleanup(folder.cleanup)  # type: ignore[attr-defined]
        self.addCleanup(recorder.datastore.close)  # type: ignore[attr-defined]
        self.addCleanup(join_others, running)  # type: ignore[attr-defined]
        return recorder


# The library's classes are reached through their module: a name of this module would be collected as a test.
class TestApplicationRecorder(OnFreshFile, persistence.ApplicationRecorderTestCase[SealingRecorder]):
    pass


class TestNonInterleavingNotificationIds(OnFreshFile, persistence.NonInterleavingNotificationIDsBaseCase):
    pass


class TestConformance:
    @pytest.mark.parametrize(
        ("case", "count"), [(TestApplicationRecorder, 4), (TestNonInterleavingNotificationIds, 1)]
    )
    def test_the_library_still_has_the_cases(self, case: type[Any], count: int) -> None:
        assert count <= len(defaultTestLoader.getTestCaseNames(case))
