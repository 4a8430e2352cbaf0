"""Runs the stages on Spark: rows are DataFrames, and a stage is a `mapInArrow`.

Only packed columns (keys among them), bitmaps and receipts cross a shuffle. Values never leave the
worker that read them and never enter the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark import Accumulator, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from rich.console import Console

from tierfold.jobs.context.stopping import check
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.jobs.spark.progress import SparkProgress
from tierfold.jobs.spark.session import SPARK_FAILURES, cause_of, has_died
from tierfold.jobs.spark.worker_memory import freeze_gc
from tierfold.storage.tiers.tier_uris import open_tier

_NAMES: Final = ("task", "partition_index", "segment_index", "bucket", "kind")

_ARROW: Final = pa.schema(
    [pa.field(name, pa.int32(), nullable=False) for name in _NAMES]
    + [pa.field("payload", pa.binary(), nullable=False)]
)

ROW_SCHEMA: Final = from_arrow_schema(_ARROW)
"""The columns of `Row`."""

BATCH_BYTES: Final = 2**20
"""Payload bytes from which on rows become a batch: large enough to make its overhead small."""


class SparkExecutor(StageExecutor[DataFrame]):
    """The stages on the executors of one Spark session."""

    def __init__(self, spark: SparkSession, tier_uri: str, console: Console) -> None:
        super().__init__(spark.sparkContext.defaultParallelism)
        self._spark = spark
        self._tier_uri = tier_uri
        self._progress = SparkProgress(spark, console)
        self._persisted: list[DataFrame] = []

    def placed(self, rows: Sequence[Row]) -> DataFrame:
        """Return the rows as a DataFrame."""
        return self._spark.createDataFrame(pa.Table.from_batches([as_batch(rows)]), ROW_SCHEMA)

    def run(self, stage: Stage, rows: DataFrame, tasks: int | None) -> DataFrame:
        """Repartition the rows by `task`, and map the stage over them."""
        sent = rows if tasks is None else rows.repartitionById(tasks, "task")
        run = _in_worker(stage, self._tier_uri, self._progress.bytes_done)
        return sent.mapInArrow(run, ROW_SCHEMA)

    def kept(self, rows: DataFrame) -> DataFrame:
        """Return the rows, persisted until `release`."""
        self._persisted.append(rows.persist(StorageLevel.MEMORY_AND_DISK))
        return self._persisted[-1]

    def only(self, rows: DataFrame, kinds: frozenset[RowKind]) -> DataFrame:
        """Return the rows of these kinds; the JVM filters them."""
        return rows.where(F.col("kind").isin([int(kind) for kind in sorted(kinds)]))

    def joined(self, rows: DataFrame, more: DataFrame) -> DataFrame:
        """Return the union."""
        return rows.unionByName(more)

    def taken(self, title: str, size_bytes: int, rows: DataFrame) -> list[Row]:
        """Collect the rows as Arrow batches, with a bar."""
        try:
            table: pa.Table = self._progress.watched(title, size_bytes, rows.toArrow)
        except SPARK_FAILURES as error:
            check()  # The signal that stops this run may have stopped Spark too.
            raise WorkersDied(cause_of(error), is_over=has_died(self._spark)) from error
        return list(rows_of(table.to_batches()))

    def release(self) -> None:
        """Unpersist what was kept."""
        super().release()
        while self._persisted:
            self._persisted.pop().unpersist()


def _in_worker(
    stage: Stage, tier_uri: str, bytes_done: Accumulator[int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker = Worker(tier=open_tier(tier_uri), advance=bytes_done.add)
        waiting: list[Row] = []
        for row in stage(worker, rows_of(batches)):
            waiting.append(row)
            if sum(len(one.payload) for one in waiting) >= BATCH_BYTES:
                yield as_batch(waiting)
                waiting = []
        yield as_batch(waiting)
        freeze_gc(type(stage).__name__)

    return run


def as_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return the rows as an Arrow batch of `ROW_SCHEMA`."""
    listed = list(rows)
    columns = [pa.array([getattr(row, name) for row in listed]) for name in _ARROW.names]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, _ARROW, strict=True)],
        schema=_ARROW,
    )


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of Arrow batches of `ROW_SCHEMA`; payloads are copied."""
    for batch in batches:
        for values in batch.to_pylist():
            yield Row(**{**values, "kind": RowKind(values["kind"])})
