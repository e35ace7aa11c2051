"""The few rows that the doctor asks a store for, each by reading alone (`abeyance.bootstrap.peeking`)."""

from dataclasses import dataclass
from datetime import datetime

from abeyance.bootstrap.peeking import has_table, peek_postgres, peek_sqlite
from abeyance.settings import Settings

_NEWEST = "SELECT key_id, key_state, created FROM run_control ORDER BY run_id DESC LIMIT 1"
_SERVER = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'), clock_timestamp(),
    current_setting('synchronous_commit') <> 'off' AND current_setting('fsync') = 'on', pg_is_in_recovery(),
    current_setting('max_connections')::int,
    current_setting('max_connections')::int
        - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int
"""
_HEAD = "SELECT coalesce(max(size), 0) FROM log_head"
_KEPT = "SELECT coalesce(max(size), 0) FROM kept_checkpoint"
_EPOCHS = "SELECT epoch, wrapped FROM abeyance_keys.epochs"


@dataclass(frozen=True, slots=True)
class NewestRun:
    """The run that was started last: its key's id, whether it was erased, when it was started (µs)."""

    key_id: int
    erased: bool
    created: int


@dataclass(frozen=True, slots=True)
class ServerState:
    """A PostgreSQL server. `version` as it counts (180001), `name` as it says (18.1)."""

    version: int
    name: str
    now: datetime
    durable: bool
    standby: bool
    connections: int
    spare: int


def newest_run(settings: Settings) -> NewestRun | None:
    """The newest run by its id, which begins with its time; `None` if there is none."""
    file = settings.journal_file
    if file is not None:
        if not file.exists():
            return None
        with peek_sqlite(file) as connection:
            row = connection.execute(_NEWEST).fetchone() if has_table(connection, "run_control") else None
    else:
        with peek_postgres(settings.database_url or "") as server:
            there = server.execute("SELECT to_regclass('run_control') IS NOT NULL").fetchone()
            row = server.execute(_NEWEST).fetchone() if there == (True,) else None
    return None if row is None else NewestRun(row[0], row[1] != "live", row[2])


def server_state(url: str) -> ServerState:
    """What a PostgreSQL server says of itself."""
    with peek_postgres(url) as connection:
        row = connection.execute(_SERVER).fetchone()
        assert row is not None
        return ServerState(*row)


def wrapped_epochs(settings: Settings) -> list[tuple[int, bytes | None]]:
    """The numbers of the key store's epochs, with their wrapped keys where the database has them."""
    file = settings.keys_file
    if file is not None:
        with peek_sqlite(file) as connection:
            return [(number, None) for (number,) in connection.execute("SELECT number FROM epoch")]
    with peek_postgres(settings.keys_url or settings.database_url or "") as server:
        return [(number, bytes(wrapped)) for number, wrapped in server.execute(_EPOCHS, binary=True)]


def has_run_key(settings: Settings, key_id: int) -> bool:
    """Whether the key store has this key."""
    file = settings.keys_file
    if file is not None:
        with peek_sqlite(file) as connection:
            found = connection.execute("SELECT 1 FROM run_keys WHERE key_id = ?", (key_id,)).fetchone()
            return found is not None
    with peek_postgres(settings.keys_url or settings.database_url or "") as server:
        return server.execute("SELECT 1 FROM abeyance_keys.get_keys(%s)", ([key_id],)).fetchone() is not None


def log_sizes(settings: Settings) -> tuple[int, int]:
    """How many records the log has, and over how many a checkpoint was kept in the key store."""
    return _journal_size(settings), _kept_size(settings)


def _journal_size(settings: Settings) -> int:
    file = settings.journal_file
    if file is not None:
        with peek_sqlite(file) as connection:
            return int(connection.execute(_HEAD).fetchone()[0]) if has_table(connection, "log_head") else 0
    with peek_postgres(settings.database_url or "") as server:
        there = server.execute("SELECT to_regclass('log_head') IS NOT NULL").fetchone()
        row = server.execute(_HEAD).fetchone() if there == (True,) else None
        return int(row[0]) if row else 0


def _kept_size(settings: Settings) -> int:
    file = settings.keys_file
    if file is not None:
        with peek_sqlite(file) as connection:
            there = has_table(connection, "kept_checkpoint")
            return int(connection.execute(_KEPT).fetchone()[0]) if there else 0
    with peek_postgres(settings.keys_url or settings.database_url or "") as server:
        found = server.execute("SELECT to_regclass('abeyance_keys.kept_checkpoint') IS NOT NULL").fetchone()
        text = _KEPT.replace("FROM ", "FROM abeyance_keys.")
        row = server.execute(text.encode()).fetchone() if found == (True,) else None
        return int(row[0]) if row else 0
