"""Adds up the requests to a store that Spark's tasks made."""

from __future__ import annotations

from pyspark import AccumulatorParam

from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.request_counts import Requests


class RequestSum(AccumulatorParam[Requests]):
    """Adds up requests; those of a task that failed are lost with it."""

    def zero(self, value: Requests) -> Requests:  # noqa: ARG002 - PySpark's signature
        """See `AccumulatorParam`."""
        return Requests()

    def addInPlace(self, value1: Requests, value2: Requests) -> Requests:  # noqa: N802
        """See `AccumulatorParam`."""
        return value1 + value2


class NearReadSum(AccumulatorParam[NearReads]):
    """Adds up what was read from files in place of a tier's logs; as `RequestSum`."""

    def zero(self, value: NearReads) -> NearReads:  # noqa: ARG002 - PySpark's signature
        """See `AccumulatorParam`."""
        return NearReads()

    def addInPlace(self, value1: NearReads, value2: NearReads) -> NearReads:  # noqa: N802
        """See `AccumulatorParam`."""
        return value1 + value2
