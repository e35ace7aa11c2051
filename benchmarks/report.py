"""Results: one JSON line a case, or a table."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_TITLES = {
    "case": "case",
    "store": "store",
    "clients": "c",
    "n": "n",
    "runs_per_s": "runs/s",
    "p50_ms": "p50\nms",
    "p99_ms": "p99\nms",
    "commits_per_run": "commits\na run",
    "bytes_per_run": "bytes\na run",
    "rss_mb": "RSS\nMB",
    "floor_runs_per_s": "floor\nruns/s",
    "ratio_to_floor": "of the\nfloor",
}


@dataclass(slots=True, kw_only=True)
class Result:
    """What one case measured. `None`: not measured by this case. `more`: its other figures, by name.

    `n` is the number of runs or samples; `commits_per_run` counts transactions that wrote; `bytes_per_run` is
    on disk after a checkpoint; `rss_mb` is the server's resident memory, all its processes.
    """

    case: str
    store: str
    clients: int
    n: int
    runs_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    commits_per_run: float | None = None
    bytes_per_run: float | None = None
    rss_mb: float | None = None
    floor_runs_per_s: float | None = None
    ratio_to_floor: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps({name: _rounded(value) for name, value in self.figures().items()})

    def figures(self) -> dict[str, Any]:
        """All figures by name, those of every case first."""
        names = [name for name in self.__dataclass_fields__ if name != "more"]
        return {name: getattr(self, name) for name in names} | self.more


def print_tables(results: Iterable[Result], console: Console) -> None:
    """A table of what all cases measure, and one a case of the rest."""
    found = list(results)
    table = Table(title="abeyance benchmarks", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name, title in _TITLES.items():
        table.add_column(title, justify="left" if name in ("case", "store") else "right", no_wrap=True)
    for result in found:
        table.add_row(*(_text(getattr(result, name)) for name in _TITLES))
    console.print(table)
    for result in found:
        details = Table(title=f"{result.case}, {result.store}, {result.clients} client(s)", show_header=False)
        for name, value in result.more.items():
            details.add_row(name, _text(value))
        console.print(details)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, float):
        return round(value, 3 if abs(value) < 100 else 1)
    return value


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
