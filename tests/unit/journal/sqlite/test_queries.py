"""No read and no poll looks at rows that it doesn't need: the query plans say so."""

from contextlib import closing
from pathlib import Path

import pytest

from abeyance.journal.sqlite import claiming, reading, sealing
from abeyance.journal.sqlite.connection import create_file, open_connection
from abeyance.journal.sqlite.schema import JOURNAL

PAGE_READS = {name: value for name, value in vars(reading).items() if name.startswith("SELECT_")}
SEALED_READS = {name: value for name, value in vars(sealing).items() if name.startswith("SELECT_")}


def plan(folder: Path, statement: str) -> list[str]:
    create_file(folder / "journal.sqlite3")
    connection = open_connection(folder / "journal.sqlite3")
    JOURNAL.ensure(connection)
    values = dict.fromkeys(("now", "grace", "limit", "run", "seen", "due", "lease", "d0"))
    given = values if ":" in statement else [None] * statement.count("?")
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
    connection.close()
    return [row[3] for row in rows]


class TestReads:
    @pytest.mark.parametrize("name", PAGE_READS)
    def test_every_table_is_searched_by_an_index(self, tmp_path: Path, name: str) -> None:
        steps = plan(tmp_path, PAGE_READS[name])

        assert steps
        assert [] == [step for step in steps if "SCAN" in step or "TEMP B-TREE" in step]

    @pytest.mark.parametrize("name", SEALED_READS)
    def test_only_the_sealers_one_row_is_scanned(self, tmp_path: Path, name: str) -> None:
        steps = plan(tmp_path, SEALED_READS[name])

        assert {"SCAN sealer"} >= {step for step in steps if "SCAN" in step or "TEMP B-TREE" in step}


class TestClaims:
    @pytest.mark.parametrize("order", ["ASC", "DESC"])
    @pytest.mark.parametrize(
        ("state", "index"),
        [(claiming._READY, "run_control_ready"), (claiming._SLEEPING, "run_control_sleeping")],
    )
    def test_due_runs_come_from_their_own_index_in_order(
        self, tmp_path: Path, state: str, index: str, order: str
    ) -> None:
        statement = (
            f"SELECT run_id, due FROM run_control WHERE {state} AND due <= :now AND {claiming._FREE} "
            f"AND (definition IN (:d0) OR due <= :grace) ORDER BY due {order} LIMIT :limit"
        )

        (step,) = plan(tmp_path, statement)

        assert f"SEARCH run_control USING INDEX {index} (due<?)" == step

    def test_a_renewal_finds_its_run_by_the_lease(self, tmp_path: Path) -> None:
        (step,) = plan(tmp_path, claiming._RENEW)

        assert "SEARCH run_control USING COVERING INDEX run_control_leased (lease_id=?)" == step

    def test_a_start_looks_only_at_leased_runs(self, tmp_path: Path) -> None:
        (step,) = plan(tmp_path, claiming._TAKE_OVER)

        assert "run_control_leased" in step

    def test_no_index_holds_what_a_renewal_writes(self, tmp_path: Path) -> None:
        path = tmp_path / "journal.sqlite3"
        create_file(path)
        select = (
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'run_control' AND sql NOT NULL"
        )
        with closing(open_connection(path)) as connection:
            JOURNAL.ensure(connection)
            indexes = connection.execute(select).fetchall()

        assert 3 == len(indexes)
        assert not any("lease_until" in sql for (sql,) in indexes)
