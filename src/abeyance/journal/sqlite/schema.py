"""Make a database's tables, bring an older one up to date, refuse a newer one.

`schema.sql` is what a new database gets; `migrations/NNNN_*.sql` lead an old one there, each in its own
transaction. `schema_version` holds the number of the last migration.
"""

import sqlite3
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from abeyance.errors import ConfigurationError
from abeyance.journal.sqlite.faults import translated


@dataclass(frozen=True)
class Schema:
    """One database's schema: the file it is made from, and the folder of its migrations."""

    name: str
    schema_file: str
    migrations_folder: str

    @cached_property
    def migrations(self) -> list[Traversable]:
        """The migrations' files, oldest first."""
        return sorted(self._root.joinpath(self.migrations_folder).iterdir(), key=lambda file: file.name)

    @property
    def version(self) -> int:
        """The version that this release reads and writes."""
        return len(self.migrations)

    def ensure(self, connection: sqlite3.Connection) -> None:
        """Make the tables or migrate them. Raises `ConfigurationError` for a database that isn't ours."""
        with translated():
            found = self.found(connection)
            if found is None:
                text = self._root.joinpath(self.schema_file).read_text("utf-8")
                _run(connection, text, self.version)
            else:
                self.migrate(connection, found)

    def migrate(self, connection: sqlite3.Connection, found: int) -> None:
        """Apply the migrations after version `found`."""
        if found > self.version:
            raise ConfigurationError(
                f"the {self.name}'s schema has version {found}, this release knows {self.version}: "
                "upgrade abeyance, or restore a backup that this release made"
            )
        for version, file in enumerate(self.migrations[found:], start=found + 1):
            _run(connection, file.read_text("utf-8"), version)

    def found(self, connection: sqlite3.Connection) -> int | None:
        """The version of the tables in a database; `None` if it is empty. Refuses another program's."""
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if "schema_version" not in tables:
            raise ConfigurationError(
                f"the {self.name}'s file is another program's database: name another one"
            )
        row = connection.execute("SELECT version FROM schema_version").fetchone()
        return 0 if row is None else int(row[0])

    @property
    def _root(self) -> Traversable:
        return files("abeyance.journal.sqlite")


def _run(connection: sqlite3.Connection, text: str, version: int) -> None:
    mark = f"DELETE FROM schema_version; INSERT INTO schema_version (version) VALUES ({version});"
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{text}\n{mark}\nCOMMIT;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.rollback()
        raise


JOURNAL = Schema("journal", "schema.sql", "migrations")
KEY_STORE = Schema("key store", "keystore_schema.sql", "keystore_migrations")
