"""Elapsed and CPU time of a contender with all its processes, from Linux's accounting."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The time of one pass."""

    elapsed_s: float
    cpu_s: float
    """CPU time of all processes."""


def tree_cpu_s(root: int) -> float:
    """User and system time of `root` and all its descendants, ended children included."""
    children: dict[int, list[int]] = defaultdict(list)
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # The process has ended; its parent has its time.
            continue
        children[int(fields[1])].append(int(entry.name))
        used[int(entry.name)] = sum(int(value) for value in fields[11:15]) / _TICKS_PER_S
    total, waiting = 0.0, [root]
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0.0)
        waiting += children[process]
    return total


class Stopwatch:
    """Measures a block of code, in this process and its descendants."""

    def __enter__(self) -> Stopwatch:
        self._cpu_s = tree_cpu_s(os.getpid())
        self._began_s = time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        self.cost = Cost(
            elapsed_s=time.perf_counter() - self._began_s,
            cpu_s=tree_cpu_s(os.getpid()) - self._cpu_s,
        )


def spread(values: list[float], digits: int = 2) -> str:
    """`min / median / max`."""
    return " / ".join(f"{f(values):.{digits}f}" for f in (min, median, max))
