"""Turns rows into Arrow batches, and a stage into the function that Spark's Python workers call.

A worker imports this module and what its stage needs, but nothing that only the driver has.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark import Accumulator, TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from tierfold.jobs.context.tier_opener import WorkerOpener
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker
from tierfold.storage.tiers.near_reads import NearReadCounter, NearReads
from tierfold.storage.tiers.request_counts import Requests

_NAMES: Final = ("task", "partition_index", "segment_index", "bucket", "kind")

_ARROW: Final = pa.schema(
    [pa.field(name, pa.int32(), nullable=False) for name in _NAMES]
    + [pa.field("payload", pa.binary(), nullable=False)]
)

ROW_SCHEMA: Final = from_arrow_schema(_ARROW)
"""The columns of `Row`."""

Given: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[Row]]
"""The batches of a task → its rows."""

_frozen_stages: Final[set[str]] = set()

BATCH_BYTES: Final = 2**20
"""Payload bytes of a batch, enough to make its overhead small."""


def in_worker(
    stage: Stage,
    opener: WorkerOpener,
    bytes_done: Accumulator[int],
    requests: Accumulator[Requests],
    near_reads: Accumulator[NearReads],
    given: Given,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the stage for `mapInArrow`: batches of `ROW_SCHEMA` in and out.

    `opener` opens the tier, the key indexes and the log directories in the worker; `given` reads
    rows from the batches.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read_near = NearReadCounter()
        tier = opener.tier().with_near(opener.near_segments(read_near))
        before = tier.requests()
        worker = Worker(tier=tier, advance=bytes_done.add, key_indexes=opener.key_indexes())
        waiting: list[Row] = []
        waiting_bytes = 0
        for row in stage(worker, given(batches)):
            waiting.append(row)
            waiting_bytes += len(row.payload)
            if waiting_bytes >= BATCH_BYTES:
                yield as_batch(waiting)
                waiting, waiting_bytes = [], 0
        yield as_batch(waiting)
        requests.add(tier.requests() - before)
        near_reads.add(read_near.sum)
        _freeze_gc(type(stage).__name__)

    return run


def only_orders(orders: Sequence[Row]) -> Given:
    """Return a function that yields a task's orders; its batches hold only the task's number."""
    of_task = _by_task(orders)

    def given(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from of_task.get(number, ())

    return given


def orders_first(orders: Sequence[Row]) -> Given:
    """Return a function that yields a task's orders, then the rows of its batches.

    A task's number is its partition id, see `spark_tasks`. A row of another task is an error:
    Spark has merged partitions, so orders would be lost.
    """
    of_task = _by_task(orders)

    def given(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("only a Spark task can read its orders")
        task = context.partitionId()
        yield from of_task.get(task, ())
        for row in rows_of(batches):
            if row.task != task:
                raise RuntimeError(f"a row of task {row.task} is in partition {task}")
            yield row

    return given


def _by_task(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.task].append(row)
    return dict(found)


def _freeze_gc(stage: str) -> None:
    """Freeze all loaded objects for the garbage collector, once per process and stage.

    After every task PySpark collects garbage and walks all objects of numba and pyarrow. That takes
    60 ms, as long as a small segment. When a task of `stage` ends, its kernels are loaded.
    tierfold's daemon has frozen its imports, but a user's session may have another daemon.
    """
    if stage not in _frozen_stages:
        _frozen_stages.add(stage)
        gc.collect()
        gc.freeze()


def as_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return the rows as an Arrow batch of `ROW_SCHEMA`."""
    listed = list(rows)
    columns = [
        pa.array([getattr(row, field.name) for row in listed], field.type) for field in _ARROW
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of Arrow batches of `ROW_SCHEMA`; payloads are copied."""
    for batch in batches:
        for values in batch.to_pylist():
            yield Row(**{**values, "kind": RowKind(values["kind"])})
