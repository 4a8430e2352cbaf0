"""Keeps the garbage collector of a Python worker from walking loaded libraries after every task."""

from __future__ import annotations

import gc

_settled: set[str] = set()


def freeze_gc(stage: str) -> None:
    """Freeze all loaded objects for the garbage collector, once per process and stage.

    After every task PySpark's daemon collects garbage and walks all objects of numba and pyarrow:
    60 ms per task, as much as the work on a small segment. Call this at the end of a task of
    `stage`, because kernels are loaded at their first call.
    """
    if stage not in _settled:
        _settled.add(stage)
        gc.collect()
        gc.freeze()
