"""What a Python worker of Spark should not look at again and again."""

from __future__ import annotations

import gc

_settled: set[str] = set()


def freeze_gc(stage: str) -> None:
    """Tells the garbage collector, once per process and stage, that what is loaded stays.

    After every task PySpark's daemon collects garbage, which walks all that numba and pyarrow have
    loaded: measured, 60 ms a task, as much as the work on a small segment. To be called when a
    task of `stage` is done, for kernels are loaded when they are first called.
    """
    if stage not in _settled:
        _settled.add(stage)
        gc.collect()
        gc.freeze()
