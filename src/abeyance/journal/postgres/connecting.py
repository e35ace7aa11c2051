"""Opening connections: what a server must be before anything is asked of it."""

from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq.abc import PGresult

from abeyance.errors import ConfigurationError, StoreUnavailableError
from abeyance.journal.postgres.clock import DatabaseClock
from abeyance.journal.postgres.session import Session, SessionSettings
from abeyance.journal.postgres.wire import statement

OLDEST_SERVER = 140_000

PROBE = statement(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
    " current_setting('server_version_num')::bigint,"
    " current_setting('synchronous_commit') <> 'off' AND current_setting('fsync') = 'on'"
)


def read_rows(result: PGresult) -> list[tuple[Any, ...]]:
    """The rows of a binary result as Python values."""
    transformer = Transformer()
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


async def open_connection(url: str, settings: SessionSettings) -> psycopg.AsyncConnection[Any]:
    """A connection that commits each statement by itself and prepares none by name: poolers forget names."""
    try:
        return await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=None, **settings.parameters(url)
        )
    except psycopg.ProgrammingError as error:
        raise ConfigurationError("the database's URL can't be read") from error
    except psycopg.Error as error:
        raise StoreUnavailableError("no connection to the database") from error


async def open_session(url: str, settings: SessionSettings, clock: DatabaseClock) -> Session:
    """A session whose server was checked, with its clock read.

    Raises `ConfigurationError` for a server that is too old or that acknowledges what isn't on disk.
    """
    connection = await open_connection(url, settings)
    session = Session(connection, settings.statement_timeout_s + 5)
    asked = clock.reading()
    try:
        ((micros, version, durable),) = read_rows(await session.run(PROBE, ()))
        clock.observe(asked, micros)
        if version < OLDEST_SERVER:
            raise ConfigurationError("PostgreSQL 14 or later is needed")
        if not durable:
            raise ConfigurationError(
                "the database's settings synchronous_commit and fsync must be on: an answer is acknowledged "
                "only once it is on disk"
            )
    except psycopg.Error as error:
        session.close()
        raise StoreUnavailableError("no connection to the database") from error
    except BaseException:
        session.close()
        raise
    return session
