"""Runs the stages on Spark: rows are DataFrames, and a stage is a `mapInArrow`.

Only packed columns (with the keys), bitmaps and receipts cross a shuffle. Values never leave the
worker that reads them and never enter the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tierfold.jobs.context.byte_progress import Listener
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.engines.arrow_rows import (
    ROW_SCHEMA,
    Given,
    as_batch,
    in_worker,
    only_orders,
    orders_first,
    rows_of,
)
from tierfold.jobs.engines.rows import Row, RowKind, Stage
from tierfold.jobs.engines.spark_tasks import at_their_tasks
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.jobs.spark.failures import SPARK_FAILURES, failure_of
from tierfold.jobs.spark.progress import SparkProgress

ORDER_BYTES_MAX: Final = 2**19
"""The most bytes of orders that travel with a stage. Each task unpickles all of them: 20,000 took
0.25 s in each task. From 1 MiB on, Spark would broadcast them and keep a file until the session
ends."""


class SparkExecutor(StageExecutor[DataFrame]):
    """Runs the stages on the executors of one Spark session."""

    def __init__(self, spark: SparkSession, context: RunContext, listener: Listener) -> None:
        super().__init__(spark.sparkContext.defaultParallelism)
        self._spark = spark
        self._context = context
        self._progress = SparkProgress(spark, listener)
        self._persisted: list[DataFrame] = []

    def run(
        self,
        stage: Stage,
        rows: DataFrame | None,
        tasks: int | None,
        orders: Sequence[Row] = (),
    ) -> DataFrame:
        """Repartition the rows by `task`, and map the stage over them and the orders.

        Few orders travel with the stage's code: shuffling them would take 50 ms more. Do not
        repartition the result before it is computed: a task finds its orders by its partition.
        """
        if sum(len(order.payload) for order in orders) > ORDER_BYTES_MAX:
            table = pa.Table.from_batches([as_batch(orders)])
            placed = self._spark.createDataFrame(table, ROW_SCHEMA)
            rows, orders = placed if rows is None else rows.unionByName(placed), ()
        if rows is None:
            sent = self._spark.range(0, tasks, 1, tasks)
            given = only_orders(orders)
        else:
            sent = rows if tasks is None else at_their_tasks(rows, tasks)
            given = orders_first(orders) if orders else rows_of
        return self._mapped(stage, sent, given)

    def run_in_turn(
        self, stage: Stage, rows: DataFrame, tasks: int, shuffle_partitions: int
    ) -> DataFrame:
        """Repartition the rows by `task`; a coalesced task reads one partition after the other."""
        sent = at_their_tasks(rows, shuffle_partitions).coalesce(tasks)
        return self._mapped(stage, sent, rows_of)

    def _mapped(self, stage: Stage, sent: DataFrame, given: Given) -> DataFrame:
        opener, done = self._context.worker_opener(), self._progress
        run = in_worker(
            stage, opener, done.bytes_done, done.requests, done.near_reads, given
        )
        return sent.mapInArrow(run, ROW_SCHEMA)

    def persisted(self, rows: DataFrame) -> DataFrame:
        """Persist the rows until `release`."""
        self._persisted.append(rows.persist(StorageLevel.MEMORY_AND_DISK))
        return self._persisted[-1]

    def of_kinds(self, rows: DataFrame, kinds: frozenset[RowKind]) -> DataFrame:
        """Return the rows of these kinds, filtered in the JVM."""
        # A column expression takes 40 calls to the JVM, 13 ms more.
        return rows.where(f"kind IN ({', '.join(str(int(kind)) for kind in sorted(kinds))})")

    def union(self, rows: DataFrame, more: DataFrame) -> DataFrame:
        """Return the union."""
        return rows.unionByName(more)

    def collected(self, title: str, size_bytes: int, rows: DataFrame) -> list[Row]:
        """Collect the rows as Arrow batches, with a bar."""
        done = self._progress
        before, near_before = done.requests.value, done.near_reads.value
        try:
            table: pa.Table = done.watched(title, size_bytes, rows.toArrow)
        finally:
            self._context.workers.add(**asdict(done.requests.value - before))
            self._context.near_reads.add(done.near_reads.value - near_before)
        return list(rows_of(table.to_batches()))

    def release(self) -> None:
        """Unpersist the kept rows."""
        super().release()
        with suppress(*SPARK_FAILURES):  # If the JVM has died, nothing is kept.
            while self._persisted:
                self._persisted.pop().unpersist()

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise WorkersDied for Spark's own errors."""
        try:
            yield
        except SPARK_FAILURES as error:
            found = failure_of(error, self._spark)
            raise WorkersDied(
                found.what, remedy=found.failure.remedy, is_over=found.is_over
            ) from error
