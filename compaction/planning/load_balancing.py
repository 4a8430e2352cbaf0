"""How work is assigned to tasks: evenly by bytes, no task far larger than the rest."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def task_count(sizes: Sequence[int], *, task_bytes: int, tasks_min: int) -> int:
    """How many tasks `sizes` (bytes per item) are worth.

    One per `task_bytes`, at least `tasks_min`, never more than there are items.
    """
    if not sizes:
        return 0
    by_bytes = -(-sum(sizes) // task_bytes)
    return max(1, min(len(sizes), max(by_bytes, tasks_min)))


def assigned(sizes: Sequence[int], tasks: int) -> list[int]:
    """Per item the task it goes to: the largest first, each to the least loaded task so far."""
    loads = [(0, task) for task in range(tasks)]
    placed = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        load, task = heapq.heappop(loads)
        placed[item] = task
        # Every item costs something beyond its bytes, or empty ones would all share one task.
        heapq.heappush(loads, (load + sizes[item] + 1, task))
    return placed
