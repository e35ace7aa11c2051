"""The binary format that is packed by hand is the one that the server reads."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import pq

from abeyance.journal.postgres.connecting import read_rows
from abeyance.journal.postgres.wire import statement

BIGINTS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = {
    "bigint": st.none() | BIGINTS,
    "uuid": st.none() | st.uuids(),
    "text": st.none() | TEXTS,
    "bytea": st.none() | st.binary(),
    "boolean": st.booleans(),
    "bigint[]": st.lists(st.none() | BIGINTS),
    "uuid[]": st.lists(st.none() | st.uuids()),
    "text[]": st.lists(TEXTS),
    "bytea[]": st.lists(st.none() | st.binary()),
}


def echo(connection: psycopg.Connection, kind: str, value: Any) -> Any:
    query = statement("SELECT $1", kind)
    result = connection.pgconn.exec_params(query.text, query.pack([value]), query.oids, query.formats, 1)
    assert pq.ExecStatus.TUPLES_OK == result.status, result.error_message
    return read_rows(result)[0][0]


@pytest.mark.parametrize("kind", VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_server_reads_what_was_packed(
    database: psycopg.Connection, kind: str, data: st.DataObject
) -> None:
    value = data.draw(VALUES[kind])

    assert value == echo(database, kind, value)


def test_a_statement_takes_as_many_values_as_it_has_places() -> None:
    with pytest.raises(ValueError, match="shorter"):
        statement("SELECT $1, $2", "uuid", "bigint").pack([UUID(int=1)])
