"""Schema and migrations of both databases, and what may be opened at all."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from abeyance.errors import ConfigurationError
from abeyance.journal.sqlite.connection import create_file, open_connection
from abeyance.journal.sqlite.schema import JOURNAL, KEY_STORE, Schema

both = pytest.mark.parametrize("schema", [JOURNAL, KEY_STORE], ids=["journal", "keys"])


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    create_file(path)
    with closing(open_connection(path)) as connection:
        yield connection


def make(path: Path) -> None:
    with connect(path):
        pass


def shape(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Every table and index as SQL, without comments and spacing, and the rows of a new database."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    found: list[tuple[str, ...]] = [
        (kind, name, " ".join(bare(sql or "").split())) for kind, name, sql in rows
    ]
    for kind, name, *_ in rows:
        if kind == "table":
            found.append((name, *map(str, connection.execute(f"SELECT * FROM {name}").fetchall())))
    return found


def bare(sql: str) -> str:
    return "\n".join(line.split("--")[0] for line in sql.splitlines())


@both
class TestSchema:
    def test_migrations_lead_to_it(self, schema: Schema, tmp_path: Path) -> None:
        with connect(tmp_path / "made") as made, connect(tmp_path / "migrated") as migrated:
            schema.ensure(made)
            schema.migrate(migrated, 0)

            assert shape(made) == shape(migrated)
            assert len(shape(made)) > 4

    def test_migrations_are_numbered_without_a_gap(self, schema: Schema, tmp_path: Path) -> None:
        numbers = [int(file.name.split("_")[0]) for file in schema.migrations]

        assert list(range(1, schema.version + 1)) == numbers

    def test_opening_again_changes_nothing(self, schema: Schema, tmp_path: Path) -> None:
        with connect(tmp_path / "file") as connection:
            schema.ensure(connection)
            before = shape(connection)

            schema.ensure(connection)

            assert before == shape(connection)

    def test_a_newer_database_is_refused(self, schema: Schema, tmp_path: Path) -> None:
        with connect(tmp_path / "file") as connection:
            schema.ensure(connection)
            connection.execute("UPDATE schema_version SET version = version + 1")

            with pytest.raises(ConfigurationError, match=f"version {schema.version + 1}.*upgrade abeyance"):
                schema.ensure(connection)

    def test_another_programs_database_is_refused(self, schema: Schema, tmp_path: Path) -> None:
        with connect(tmp_path / "file") as connection:
            connection.execute("CREATE TABLE theirs (id INTEGER)")

            with pytest.raises(ConfigurationError, match="another program"):
                schema.ensure(connection)

    def test_a_migration_that_fails_leaves_nothing(self, schema: Schema, tmp_path: Path) -> None:
        with connect(tmp_path / "file") as connection:
            connection.execute("CREATE TABLE epoch (number INTEGER)")
            connection.execute("CREATE TABLE sealer (number INTEGER)")

            with pytest.raises(sqlite3.OperationalError):
                schema.migrate(connection, 0)

            tables = connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
            assert [("epoch",), ("sealer",)] == tables


class TestColumns:
    @pytest.mark.case("J06")
    def test_every_column_says_what_it_holds(self, tmp_path: Path) -> None:
        with connect(tmp_path / "file") as connection:
            JOURNAL.ensure(connection)
            named = connection.execute(
                "SELECT DISTINCT c.type FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c "
                "WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY 1"
            ).fetchall()

            assert [("BLOB",), ("INTEGER",), ("TEXT",)] == named


class TestConnection:
    @pytest.mark.case("J05")
    @pytest.mark.parametrize("read_only", [False, True])
    def test_commits_are_on_disk_and_deleted_rows_overwritten(self, tmp_path: Path, read_only: bool) -> None:
        make(tmp_path / "file")

        with closing(open_connection(tmp_path / "file", read_only=read_only)) as connection:
            found = [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "secure_delete")
            ]
            assert ["wal", 2, 1] == found

    @pytest.mark.case("J05")
    def test_a_setting_that_doesnt_hold_stops_the_start(self, tmp_path: Path) -> None:
        make(tmp_path / "file")

        with pytest.raises(ConfigurationError, match="journal_mode"):
            open_connection(tmp_path / "file", read_only=True, journal_mode="truncate")

    def test_a_reader_cant_write(self, tmp_path: Path) -> None:
        make(tmp_path / "file")
        with closing(open_connection(tmp_path / "file", read_only=True)) as connection:
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("CREATE TABLE mine (id INTEGER)")

    def test_a_path_with_any_character_is_that_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a b%20?mode=memory#x"

        with connect(path) as connection:
            connection.execute("CREATE TABLE mine (id INTEGER)")

        assert path.stat().st_size > 0
        assert 0o600 == path.stat().st_mode & 0o777
