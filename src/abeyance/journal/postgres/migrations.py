"""Making and upgrading the tables: numbered files, each in a transaction of its own.

`migrate` takes an advisory lock, so that processes that start at once make the tables once. A database that
a newer release has migrated is refused.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import psycopg

from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.postgres.wire import Statement, statement

_LOCK = "SELECT pg_advisory_xact_lock(7306, 0)"


@dataclass(frozen=True)
class Schema:
    """One set of tables: where its migrations are, and the table that says which were applied."""

    folder: str
    table: str
    package: str = "abeyance.journal.postgres"

    @property
    def scripts(self) -> list[str]:
        """The migrations in order; the first is version 1."""
        folder = files(self.package) / self.folder
        found = sorted(path.name for path in folder.iterdir() if path.name.endswith(".sql"))
        return [(folder / name).read_text(encoding="utf-8") for name in found]

    @property
    def select_version(self) -> Statement:
        """The version that a database has."""
        return statement(f"SELECT coalesce(max(version), 0) FROM {self.table}")

    def check_version(self, version: int) -> None:
        """Raise `ConfigurationError` unless this is exactly what this release works with."""
        newest = len(self.scripts)
        if version > newest:
            raise ConfigurationError(
                f"the database has version {version} of its tables, this release knows {newest}: "
                "use the release that migrated it, or a newer one"
            )
        if version < newest:
            raise ConfigurationError(
                f"the database has version {version} of its tables, this release needs {newest}: "
                "run `abeyance db migrate`"
            )


JOURNAL = Schema("migrations", "schema_migrations")
KEYS = Schema("key_migrations", "abeyance_keys.schema_migrations")


def migrate(url: str) -> int:
    """Bring the journal's tables in the database at `url` to this release's version, which is returned."""
    return bring_up_to_date(JOURNAL, url)


def migrate_keys(url: str) -> int:
    """The same for the key store's tables, which are in a schema of their own."""
    return bring_up_to_date(KEYS, url)


def bring_up_to_date(schema: Schema, url: str) -> int:
    """Apply what a database lacks of a set of tables; the version after that."""
    scripts = schema.scripts
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            for version, script in enumerate(scripts, 1):
                _apply(connection, schema, version, script)
            stored = stored_version(connection, schema)
    except psycopg.OperationalError as error:
        raise StoreUnavailableError("the database can't be migrated right now") from error
    schema.check_version(stored)
    return stored


def _apply(connection: psycopg.Connection[Any], schema: Schema, version: int, script: str) -> None:
    with connection.transaction():
        connection.execute(_LOCK)
        if stored_version(connection, schema) >= version:
            return
        connection.execute(script.encode())
        connection.execute(
            f"INSERT INTO {schema.table} VALUES (%s, (extract(epoch FROM now()) * 1000000)::bigint)".encode(),
            (version,),
        )


def stored_version(connection: psycopg.Connection[Any], schema: Schema) -> int:
    """The version of a set of tables in a database; 0 if it has none."""
    exists = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (schema.table,)).fetchone()
    if exists != (True,):
        return 0
    row = connection.execute(schema.select_version.text).fetchone()
    return int(row[0]) if row else 0
