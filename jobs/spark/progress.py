"""Progress of Spark's tasks, which add what they have done to accumulators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import Accumulator, inheritable_thread_target
from pyspark.sql import SparkSession

from tierfold.jobs.context.byte_progress import ByteProgress, Listener
from tierfold.jobs.spark.request_sum import CountSum
from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.request_counts import Requests

_T = TypeVar("_T")


class SparkProgress:
    """Reports each action of a Spark session as one step."""

    def __init__(self, spark: SparkSession, listener: Listener) -> None:
        self._spark = spark
        context = spark.sparkContext
        self.bytes_done: Accumulator[int] = context.accumulator(0)
        self.requests: Accumulator[Requests] = context.accumulator(Requests(), CountSum())
        self.near_reads: Accumulator[NearReads] = context.accumulator(NearReads(), CountSum())
        self._progress = ByteProgress(
            listener, bytes_done=lambda: self.bytes_done.value, cancel=self._cancel
        )

    def watched(self, title: str, bytes_total: int | None, action: Callable[[], _T]) -> _T:
        """Run `action` in a thread of the same Spark session; as `ByteProgress.watched`."""
        inheriting: Callable[[], _T] = inheritable_thread_target(self._spark)(action)
        return self._progress.watched(title, bytes_total, inheriting)

    def _cancel(self) -> None:
        with suppress(Py4JError, OSError):  # The JVM may have received the signal too.
            self._spark.sparkContext.cancelAllJobs()
