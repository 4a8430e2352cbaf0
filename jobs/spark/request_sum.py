"""Adds up what Spark's tasks asked of a store, and what they read from log directories."""

from __future__ import annotations

from typing import TypeVar

from pyspark import AccumulatorParam

from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.request_counts import Requests

_Counts = TypeVar("_Counts", Requests, NearReads)


class CountSum(AccumulatorParam[_Counts]):
    """Adds up counts; those of a task that failed are lost with it."""

    def zero(self, value: _Counts) -> _Counts:
        """See `AccumulatorParam`."""
        return type(value)()

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:  # noqa: N802
        """See `AccumulatorParam`."""
        return value1 + value2
