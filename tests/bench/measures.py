"""Elapsed time, CPU time and memory of a process and its descendants, from Linux's /proc."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, ParamSpec, TypeVar

from tests.end_to_end.processes import repeated

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

P = ParamSpec("P")
T = TypeVar("T")


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
        except OSError:  # The process has ended; its CPU time is now its parent's.
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
    """User and system time of `root` and all its descendants, including those that have ended."""
    found = _processes()
    return sum(found[pid].cpu_s for pid in _tree(root, found) if pid in found)


def _workers() -> list[int]:
    """The Python processes among the descendants of this process."""
    found = _processes()
    _, *tree = _tree(os.getpid(), found)
    return [pid for pid in tree if found[pid].name.startswith("python")]


class Stopwatch:
    """Measures the `cost` of a block of code, in this process and its descendants."""

    def __enter__(self) -> Stopwatch:
        self._cpu_s = tree_cpu_s(os.getpid())
        self._began_s = time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        self.cost = Cost(
            elapsed_s=time.perf_counter() - self._began_s,
            cpu_s=tree_cpu_s(os.getpid()) - self._cpu_s,
        )


class PeakMemory:
    """The largest anonymous memory (RssAnon) during a block of code, sampled by a thread."""

    def __init__(self, sample: Callable[[], int], interval_s: float) -> None:
        self._sample = sample
        self._sampled = repeated(self._look, interval_s)

    def __enter__(self) -> PeakMemory:
        self.start_bytes = self.peak_bytes = self._sample()
        self._sampled.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._sampled.__exit__(*error)

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._sample())


def peak_of_workers() -> PeakMemory:
    """The peak of the largest Python worker."""
    return PeakMemory(lambda: max(map(_anonymous_bytes, _workers()), default=0), 0.05)


def peak_of_this_process() -> PeakMemory:
    """The peak of this process."""
    return PeakMemory(lambda: _anonymous_bytes(os.getpid()), 0.002)


def _anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # The process has ended.
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def in_new_process(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call the function in a fresh Python process; return its result."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **options).result()


def spread(values: Iterable[float], digits: int = 2) -> str:
    """`min / median / max`."""
    known = list(values)
    return " / ".join(f"{f(known):.{digits}f}" for f in (min, median, max))


def ratios(above: Iterable[float], below: Iterable[float]) -> str:
    """The spread of `above ÷ below`, pair by pair."""
    return spread(a / b for a, b in zip(above, below, strict=True))
