"""How work is divided among tasks: evenly by bytes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def task_count(sizes: Sequence[int], *, task_bytes: int, tasks_min: int) -> int:
    """The number of tasks for items of these `sizes` in bytes.

    One task per `task_bytes`, at least `tasks_min`, and no more tasks than items.
    """
    if not sizes:
        return 0
    by_bytes = -(-sum(sizes) // task_bytes)
    return max(1, min(len(sizes), max(by_bytes, tasks_min)))


def assigned(sizes: Sequence[int], tasks: int) -> list[int]:
    """The task of each item. The largest item goes first, each to the least loaded task so far."""
    loads = [(0, task) for task in range(tasks)]
    placed = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        load, task = heapq.heappop(loads)
        placed[item] = task
        # One byte more per item, or all empty items would go to one task.
        heapq.heappush(loads, (load + sizes[item] + 1, task))
    return placed
