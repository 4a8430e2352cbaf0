"""Turns rows into Arrow batches, and a stage into the function that Spark's Python workers call.

A worker imports this module and what its stage needs, but nothing that only the driver has.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql.pandas.types import from_arrow_schema

from tierfold.jobs.context.tier_opener import WorkerOpener
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker
from tierfold.storage.tiers.request_counts import Requests

_NAMES: Final = ("task", "partition_index", "segment_index", "bucket", "kind")

_ARROW: Final = pa.schema(
    [pa.field(name, pa.int32(), nullable=False) for name in _NAMES]
    + [pa.field("payload", pa.binary(), nullable=False)]
)

ROW_SCHEMA: Final = from_arrow_schema(_ARROW)
"""The columns of `Row`."""

_frozen_stages: Final[set[str]] = set()

BATCH_BYTES: Final = 2**20
"""Payload bytes of a batch; this many make its overhead small."""


def in_worker(
    stage: Stage,
    opener: WorkerOpener,
    bytes_done: Accumulator[int],
    requests: Accumulator[Requests],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the stage for `mapInArrow`: batches of `ROW_SCHEMA` in and out.

    `opener` opens the tier and the key indexes in the worker.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tier = opener.tier()
        before = tier.requests()
        worker = Worker(tier=tier, advance=bytes_done.add, key_indexes=opener.key_indexes())
        waiting: list[Row] = []
        waiting_bytes = 0
        for row in stage(worker, rows_of(batches)):
            waiting.append(row)
            waiting_bytes += len(row.payload)
            if waiting_bytes >= BATCH_BYTES:
                yield as_batch(waiting)
                waiting, waiting_bytes = [], 0
        yield as_batch(waiting)
        requests.add(tier.requests() - before)
        _freeze_gc(type(stage).__name__)

    return run


def _freeze_gc(stage: str) -> None:
    """Freeze all loaded objects for the garbage collector, once per process and stage.

    After every task PySpark's daemon collects garbage and walks all objects of numba and pyarrow,
    which takes 60 ms, as long as a small segment. At the end of a task of `stage`, its kernels are
    loaded.
    """
    if stage not in _frozen_stages:
        _frozen_stages.add(stage)
        gc.collect()
        gc.freeze()


def as_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return the rows as an Arrow batch of `ROW_SCHEMA`."""
    listed = list(rows)
    columns = [pa.array([getattr(row, name) for row in listed]) for name in _ARROW.names]
    cast = [column.cast(field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=_ARROW)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of Arrow batches of `ROW_SCHEMA`; payloads are copied."""
    for batch in batches:
        for values in batch.to_pylist():
            yield Row(**{**values, "kind": RowKind(values["kind"])})
