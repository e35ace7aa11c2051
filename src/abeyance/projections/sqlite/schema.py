"""Make the read models' tables in the journal's file, and bring older ones up to date.

Numbered files under `migrations/`, each applied once, in its own savepoint on the writer's thread.
"""

import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from abeyance.errors import ConfigurationError

_FOLDER = "migrations"
_CREATE_VERSION = "CREATE TABLE IF NOT EXISTS read_models_version (version INTEGER NOT NULL)"


def scripts() -> list[str]:
    """The migrations in order; the first is version 1."""
    folder = files("abeyance.projections.sqlite") / _FOLDER
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in found]


def ensure(cursor: sqlite3.Cursor) -> int:
    """Apply what is missing; the version after it. Raises `ConfigurationError` for a newer one's tables."""
    cursor.execute(_CREATE_VERSION)
    row = cursor.execute("SELECT version FROM read_models_version").fetchone()
    stored, known = 0 if row is None else int(row[0]), scripts()
    if stored > len(known):
        raise ConfigurationError(
            f"the read models have version {stored} of their tables, this release knows {len(known)}: "
            "use the release that made them, or a newer one"
        )
    for script in known[stored:]:
        for statement in _statements(script):
            cursor.execute(statement)
    if stored < len(known):
        cursor.execute("DELETE FROM read_models_version")
        cursor.execute("INSERT INTO read_models_version (version) VALUES (?)", (len(known),))
    return len(known)


def _statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit the writer's transaction."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
