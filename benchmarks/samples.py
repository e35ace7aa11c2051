"""Figures from samples."""

from collections.abc import Iterable


def percentile(samples: Iterable[float], percent: float) -> float:
    """The smallest sample that at least `percent` % of them don't exceed."""
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("no samples")
    return ordered[max(0, -(-len(ordered) * percent // 100).__int__() - 1)]
