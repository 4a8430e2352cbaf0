"""Progress of Spark's tasks: they add to accumulators what they have done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import Accumulator, inheritable_thread_target
from pyspark.sql import SparkSession
from rich.console import Console

from tierfold.jobs.context.byte_progress import ByteProgress
from tierfold.jobs.spark.request_sum import RequestSum
from tierfold.storage.tiers.request_counts import Requests

_T = TypeVar("_T")


class SparkProgress:
    """One bar per action of a Spark session; silent if stderr is not a terminal."""

    def __init__(self, spark: SparkSession, console: Console) -> None:
        self._spark = spark
        context = spark.sparkContext
        self.bytes_done: Accumulator[int] = context.accumulator(0)
        self.requests: Accumulator[Requests] = context.accumulator(Requests(), RequestSum())
        self._progress = ByteProgress(
            console, bytes_done=lambda: self.bytes_done.value, cancel=self._cancel
        )

    def watched(self, title: str, bytes_total: int | None, action: Callable[[], _T]) -> _T:
        """Run `action` in a thread of the same Spark session; as `ByteProgress.watched`."""
        inheriting: Callable[[], _T] = inheritable_thread_target(self._spark)(action)
        return self._progress.watched(title, bytes_total, inheriting)

    def _cancel(self) -> None:
        with suppress(Py4JError, OSError):  # The JVM may have received the signal too.
            self._spark.sparkContext.cancelAllJobs()
