"""`abeyance db migrate`: says what it did, on both stores."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from abeyance.bootstrap import migrate_store
from abeyance.errors import ConfigurationError
from abeyance.settings import Settings


@pytest.fixture
def settings(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    url = request.getfixturevalue("postgres_url") if store_kind == "postgres" else None
    return Settings.load({}, {"data_dir": tmp_path / "data", "database_url": url})


def applied(done: dict[str, Any]) -> dict[str, int]:
    return {step["tables"]: step["from"] for step in done["applied"]}


class TestMigrate:
    def test_the_first_time_makes_the_tables_and_the_second_finds_them_up_to_date(
        self, settings: Settings
    ) -> None:
        first, second = migrate_store(settings), migrate_store(settings)

        made = {"journal": 0, "read models": 0} | ({"key store": 0} if settings.on_postgres else {})
        assert made == applied(first)
        assert {} == applied(second)
        assert first["versions"] == second["versions"]

    def test_an_older_store_is_brought_on_and_says_from_where(self, tmp_path: Path) -> None:
        settings = Settings.load({}, {"data_dir": tmp_path / "data"})
        migrate_store(settings)
        assert settings.journal_file is not None
        with sqlite3.connect(settings.journal_file) as connection:
            connection.execute("DROP TABLE read_models_version")
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND (name LIKE 'runs\\_%' ESCAPE '\\'"
                " OR name = 'waits_list' OR name LIKE 'read\\_models%' ESCAPE '\\')"
            ).fetchall():
                connection.execute(f"DROP TABLE {table}")
        connection.close()

        assert {"read models": 0} == applied(migrate_store(settings))

    def test_a_newer_store_is_refused_before_anything_is_changed(self, tmp_path: Path) -> None:
        settings = Settings.load({}, {"data_dir": tmp_path / "data"})
        migrate_store(settings)
        assert settings.journal_file is not None
        with sqlite3.connect(settings.journal_file) as connection:
            connection.execute("UPDATE read_models_version SET version = 99")
        connection.close()

        with pytest.raises(ConfigurationError, match="tables of the read models have version 99"):
            migrate_store(settings)
