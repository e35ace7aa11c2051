"""The following read models' tables on PostgreSQL, in the journal's database."""

from abeyance.projections.postgres.store import (
    PostgresReadModels,
    migrate_read_models,
    open_postgres_read_models,
)

__all__ = ["PostgresReadModels", "migrate_read_models", "open_postgres_read_models"]
