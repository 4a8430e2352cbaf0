"""Puts Spark's rows where their task runs: `task` is the number of their partition."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

_SEED: Final = 42
_TRIED: Final = 64
"""Integers per partition, among which one that Spark hashes to it is missing with a chance of
e^-64."""


def at_their_tasks(rows: DataFrame, tasks: int) -> DataFrame:
    """Repartition the rows into `tasks` partitions, each row into that of the number in `task`.

    A number beyond them counts modulo `tasks`.
    """
    if hasattr(rows, "repartitionById"):  # Since Spark 4.1.
        return rows.repartitionById(tasks, "task")
    return at_hashed_tasks(rows, tasks)


def at_hashed_tasks(rows: DataFrame, tasks: int) -> DataFrame:
    """The same by the hash of an integer, which Spark has always had."""
    values = ", ".join(map(str, _hashed_to_each(tasks)))
    return rows.repartition(tasks, expr(f"element_at(array({values}), task % {tasks} + 1)"))


@lru_cache
def _hashed_to_each(partitions: int) -> tuple[int, ...]:
    """Per partition, an integer that Spark's HashPartitioning puts there."""
    integers = np.arange(_TRIED * partitions, dtype=np.uint32)
    hashed = _murmur3(integers).view(np.int32) % partitions
    return tuple(np.unique(hashed, return_index=True)[1].tolist())


def _murmur3(integers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """What Spark's Murmur3_x86_32.hashInt returns for each, as unsigned."""
    mixed = integers * np.uint32(0xCC9E2D51)
    mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
    mixed = _rotated(mixed ^ np.uint32(_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # Bytes of an integer.
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return mixed ^ (mixed >> np.uint32(16))


def _rotated(integers: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (integers << np.uint32(bits)) | (integers >> np.uint32(32 - bits))
