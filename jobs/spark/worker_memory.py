"""Keeps the garbage collector of a Python worker from walking loaded libraries after every task."""

from __future__ import annotations

import gc

_frozen_stages: set[str] = set()


def freeze_gc(stage: str) -> None:
    """Freeze all loaded objects for the garbage collector, once per process and stage.

    After every task PySpark's daemon collects garbage and walks all objects of numba and pyarrow,
    which takes 60 ms, as long as a small segment. Call this at the end of a task of `stage`: by
    then its kernels are loaded.
    """
    if stage not in _frozen_stages:
        _frozen_stages.add(stage)
        gc.collect()
        gc.freeze()
