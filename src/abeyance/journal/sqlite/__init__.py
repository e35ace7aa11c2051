"""The journal and its keys on SQLite: one machine, one process, nothing to install."""

from abeyance.journal.sqlite.keystore import SQLiteKeyStore, open_sqlite_keys
from abeyance.journal.sqlite.recorder import JournalSQLiteFactory, JournalSQLiteRecorder
from abeyance.journal.sqlite.store import SQLiteJournalStore, open_sqlite

__all__ = [
    "JournalSQLiteFactory",
    "JournalSQLiteRecorder",
    "SQLiteJournalStore",
    "SQLiteKeyStore",
    "open_sqlite",
    "open_sqlite_keys",
]
