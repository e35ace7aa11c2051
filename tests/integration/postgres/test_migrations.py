"""The tables come from numbered files: once, in order, and to exactly what the schema's file says."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import psycopg
import pytest

from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.postgres import migrate, migrate_keys, open_postgres, open_postgres_keys
from tests.integration.postgres.conftest import OpenStore
from tests.integration.postgres.samples import WORLD, new_append, new_run

# Everything that makes a schema: columns, defaults, indexes, constraints, settings, views, types, functions.
CATALOG = """
WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'abeyance_keys')),
     tables AS (SELECT * FROM pg_class WHERE relnamespace IN (SELECT oid FROM ours))
SELECT 'column', concat(t.relkind, ' ', t.oid::regclass), a.attname, concat(
    format_type(a.atttypid, a.atttypmod), ' ', a.attnotnull, ' ', a.attstorage, ' ',
    pg_get_expr(d.adbin, d.adrelid), ' ', t.reloptions)
FROM pg_attribute AS a JOIN tables AS t ON t.oid = a.attrelid
LEFT JOIN pg_attrdef AS d ON d.adrelid = t.oid AND d.adnum = a.attnum
WHERE a.attnum > 0
UNION ALL SELECT 'index', indexrelid::regclass::text, '', pg_get_indexdef(indexrelid)
FROM pg_index WHERE indrelid IN (SELECT oid FROM tables)
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace IN (SELECT oid FROM ours)
UNION ALL SELECT 'view', oid::regclass::text, '', pg_get_viewdef(oid) FROM tables WHERE relkind = 'v'
UNION ALL SELECT 'function', oid::regprocedure::text, '', pg_get_functiondef(oid)
FROM pg_proc WHERE pronamespace IN (SELECT oid FROM ours)
ORDER BY 1, 2, 3, 4
"""


def read_catalog(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(CATALOG).fetchall()


def test_migrations_lead_to_the_schema(make_postgres_database: Callable[[], str]) -> None:
    migrated, made = make_postgres_database(), make_postgres_database()
    folder = files("abeyance.journal.postgres")

    migrate(migrated)
    migrate_keys(migrated)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute((folder / "schema.sql").read_bytes())
        connection.execute((folder / "functions.sql").read_bytes())
        connection.execute((folder / "key_schema.sql").read_bytes())

    catalog = read_catalog(migrated)
    assert read_catalog(made) == catalog
    assert {"column", "index", "constraint", "view", "function"} == {row[0] for row in catalog}


@pytest.mark.case("K08")
def test_every_integer_is_a_bigint(postgres_url: str) -> None:
    migrate(postgres_url)
    migrate_keys(postgres_url)

    columns = [row for row in read_catalog(postgres_url) if row[0] == "column" and row[1].startswith("r ")]

    assert 40 < len(columns)
    assert [] == [row for row in columns if row[3].startswith(("integer", "smallint"))]


def test_no_table_refers_to_another(postgres_url: str) -> None:
    migrate(postgres_url)

    assert [] == [row for row in read_catalog(postgres_url) if "FOREIGN KEY" in row[3]]


def test_migrating_again_changes_nothing(postgres_url: str) -> None:
    versions = [migrate(postgres_url), migrate_keys(postgres_url)]
    before = read_catalog(postgres_url)

    assert versions == [migrate(postgres_url), migrate_keys(postgres_url)]
    assert before == read_catalog(postgres_url)


def test_four_that_migrate_at_once_make_the_tables_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as together:
        versions = list(together.map(migrate, [postgres_url] * 4))

    with psycopg.connect(postgres_url) as connection:
        applied = connection.execute("SELECT version FROM schema_migrations ORDER BY 1").fetchall()
    assert versions[0] == len(applied)
    assert {versions[0]} == set(versions)


def test_a_server_that_isnt_there_is_unavailable(tmp_path: object) -> None:
    with pytest.raises(StoreUnavailableError):
        migrate(f"postgresql:///x?host={tmp_path}")


class TestOtherVersions:
    def test_a_database_without_tables_is_refused_with_what_to_do(self, postgres_url: str) -> None:
        with pytest.raises(ConfigurationError, match="db migrate"):
            asyncio.run(open_postgres(postgres_url, WORLD))
        with pytest.raises(ConfigurationError, match="db migrate"):
            asyncio.run(open_postgres_keys(postgres_url, bytes(32), WORLD))

    def test_a_database_of_a_newer_release_is_refused(self, postgres_url: str) -> None:
        migrate(postgres_url)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("INSERT INTO schema_migrations VALUES (999, 0)")

        with pytest.raises(ConfigurationError, match="version 999"):
            asyncio.run(open_postgres(postgres_url, WORLD))
        with pytest.raises(ConfigurationError, match="version 999"):
            migrate(postgres_url)

    @pytest.mark.anyio
    async def test_a_process_that_a_newer_release_migrated_away_from_takes_nothing(
        self, journal_url: str, open_store: OpenStore
    ) -> None:
        """To a request it is a store that can't be used now: 503, and another process may take it."""
        store = await open_store(journal_url)
        with psycopg.connect(journal_url, autocommit=True) as connection:
            connection.execute("DROP FUNCTION journal_append")

        with pytest.raises(StoreUnavailableError, match="newer release"):
            await store.append([new_append(new_run())])
