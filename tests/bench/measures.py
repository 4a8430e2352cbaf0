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


class _Process(NamedTuple):
    name: str
    parent: int
    cpu_s: float


def _processes() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            before, _, after = (entry / "stat").read_text().rpartition(")")
        except OSError:  # The process has ended; its parent has its time.
            continue
        fields = after.split()
        cpu_s = sum(int(value) for value in fields[11:15]) / _TICKS_PER_S
        found[int(entry.name)] = _Process(before.partition("(")[2], int(fields[1]), cpu_s)
    return found


def _tree(root: int, found: dict[int, _Process]) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, process in found.items():
        children[process.parent].append(pid)
    tree = [root]
    for pid in tree:
        tree += children[pid]
    return tree


def tree_cpu_s(root: int) -> float:
    """User and system time of `root` and all its descendants, ended children included."""
    found = _processes()
    return sum(found[pid].cpu_s for pid in _tree(root, found) if pid in found)


def children_of(name: str) -> list[int]:
    """The descendants of this process whose name begins like that."""
    found = _processes()
    _, *tree = _tree(os.getpid(), found)
    return [pid for pid in tree if found[pid].name.startswith(name)]


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
