"""The journal and its keys on PostgreSQL 14 and later: many processes and machines, one database.

`open_postgres` and `open_postgres_keys` give the two ports of `abeyance.journal.store`; `migrate` and
`migrate_keys` make and upgrade their tables.
"""

from abeyance.journal.postgres.keystore import PostgresKeyStore, open_postgres_keys
from abeyance.journal.postgres.migrations import migrate, migrate_keys
from abeyance.journal.postgres.session import SessionSettings
from abeyance.journal.postgres.store import PostgresJournalStore, open_postgres

__all__ = [
    "PostgresJournalStore",
    "PostgresKeyStore",
    "SessionSettings",
    "migrate",
    "migrate_keys",
    "open_postgres",
    "open_postgres_keys",
]
