"""What processes use, from /proc: CPU time and memory of a process and everything below it."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                left += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def cpu_s(root: int) -> float:
    """CPU seconds that a process and its descendants have used, those that have ended included."""
    return sum(_ticks(pid) for pid in tree(root)) / _TICKS_PER_S


def rss_mb(root: int) -> float:
    """Resident memory of a process and its descendants, in MB (10^6 bytes); shared pages count in each."""
    return sum(_resident(pid) for pid in tree(root)) / 1e6


def threads(root: int) -> int:
    """Threads of a process and its descendants."""
    return sum(len(list(Path(f"/proc/{pid}/task").glob("*"))) for pid in tree(root))


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(value) for value in fields[11:15])  # utime, stime, and both of reaped children


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
