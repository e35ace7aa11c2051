"""What the benchmarks make of their samples."""

import json

import pytest

from benchmarks.cases.throughput import per_run
from benchmarks.report import Result
from benchmarks.samples import percentile


class TestPercentile:
    @pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100), (1, 1)])
    def test_is_the_smallest_sample_that_so_many_do_not_exceed(self, percent: int, expected: int) -> None:
        assert expected == percentile(range(1, 101), percent)

    def test_of_one_sample_is_that_sample(self) -> None:
        assert percentile([7.5], 99) == 7.5

    def test_of_nothing_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no samples"):
            percentile([], 50)


class TestBytesARun:
    def test_leaves_out_what_the_empty_store_had(self) -> None:
        grown = per_run({"events": 1_000, "links": 300}, {"events": 200, "links": 300}, 10)

        assert grown == {"events": 80.0}


class TestResult:
    def test_names_every_common_figure_also_where_a_case_has_none(self) -> None:
        line = json.loads(Result(case="B2", store="sqlite", clients=1, n=3, p50_ms=1.23456).line())

        assert {
            "case": "B2",
            "store": "sqlite",
            "clients": 1,
            "n": 3,
            "runs_per_s": None,
            "p50_ms": 1.235,
            "p99_ms": None,
            "commits_per_run": None,
            "bytes_per_run": None,
            "rss_mb": None,
            "floor_runs_per_s": None,
            "ratio_to_floor": None,
        } == line
