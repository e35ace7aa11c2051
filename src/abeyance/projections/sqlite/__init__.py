"""The following read models' tables on SQLite, in the journal's own file."""

from abeyance.projections.sqlite.store import SQLiteReadModels, open_sqlite_read_models

__all__ = ["SQLiteReadModels", "open_sqlite_read_models"]
