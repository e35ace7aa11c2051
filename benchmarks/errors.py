"""The one error of the benchmarks."""


class BenchmarkError(Exception):
    """Something was wrong, as opposed to slow: a lost run, a broken signature, a reply that can't be."""
