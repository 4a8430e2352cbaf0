"""The two stages of `verify`: read every segment once, then compare the keys of each bucket.

As in `compact`, values stay in the worker that read them: only keys are shuffled, with the lengths
and digests of their latest values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from tierfold.compaction.verification.comparison import compared
from tierfold.compaction.verification.latest_values import (
    LatestValues,
    deserialize_latest,
    latest_of,
    serialize_latest,
)
from tierfold.jobs.pipeline.stages.segment_rows import (
    ROW_SCHEMA,
    Row,
    RowKind,
    as_batch,
    failure,
    pickled,
    rows_of,
    unpickled,
)
from tierfold.jobs.pipeline.stages.worker_memory import freeze_gc
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check
from tierfold.storage.tiers.tier_uris import open_tier

ORDER_SCHEMA: Final = StructType(
    [
        StructField("task", IntegerType(), nullable=False),
        StructField("partition_index", IntegerType(), nullable=False),
        StructField("segment_index", IntegerType(), nullable=False),
        StructField("first_bucket_task", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
    ]
)
"""A row per segment; `payload` is a packed `CheckOrder`."""


def segments_checked(
    orders: DataFrame, tasks: int, tier_uri: str, bytes_done: Accumulator[int]
) -> DataFrame:
    """`ORDER_SCHEMA` → CHECKED or FAILED, LATEST_NOW and LATEST_BEFORE rows."""

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for order in batch.to_pylist():
                task: CheckOrder = unpickled(order.pop("payload"))
                yield as_batch(_rows(tier_uri, task, **order))
                bytes_done.add(task.segment.size_bytes)
        freeze_gc("check")

    return orders.repartitionById(tasks, "task").mapInArrow(check, ROW_SCHEMA)


def _rows(
    tier_uri: str,
    order: CheckOrder,
    *,
    task: int,  # noqa: ARG001  (a column of the row; the rows are already assigned by it)
    partition_index: int,
    segment_index: int,
    first_bucket_task: int,
) -> Iterator[Row]:
    """Yield the rows of one segment; a failure becomes one row, so other segments go on."""

    def row(kind: RowKind, payload: bytes, bucket: int = 0) -> Row:
        return Row(
            task=first_bucket_task + bucket,
            partition_index=partition_index,
            segment_index=segment_index,
            bucket=bucket,
            kind=kind,
            payload=payload,
        )

    try:
        found = read_and_check(open_tier(tier_uri), order)
    except Exception as error:  # noqa: BLE001 - it fails this segment alone, and is reported
        yield row(RowKind.FAILED, failure(error, f"{order.key}, {order.segment.segment_id}"))
        return
    yield row(RowKind.CHECKED, pickled(found.checked))
    for kind, blocks in (
        (RowKind.LATEST_NOW, found.now),
        (RowKind.LATEST_BEFORE, found.before),
    ):
        for bucket, latest in blocks:
            yield row(kind, serialize_latest(latest), bucket)


def keys_compared(
    rows: DataFrame, tasks: int, passes: Mapping[int, Sequence[int]]
) -> DataFrame:
    """LATEST_NOW and LATEST_BEFORE rows → a COMPARED row per bucket; others pass through.

    `passes`: the offsets at which passes ended, by partition index, if versions decide.
    """

    def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sides: dict[tuple[int, int], tuple[list[LatestValues], list[LatestValues]]] = defaultdict(
            lambda: ([], [])
        )
        for row in rows_of(batches):
            if row.kind in {RowKind.LATEST_BEFORE, RowKind.LATEST_NOW}:
                side = sides[row.partition_index, row.bucket][row.kind is RowKind.LATEST_NOW]
                side.append(deserialize_latest(row.payload))
            else:
                yield as_batch([row])
        for (partition_index, bucket), (before, now) in sides.items():
            found = compared(
                latest_of(_in_log_order(before)),
                latest_of(_in_log_order(now)),
                passes.get(partition_index, ()),
            )
            yield as_batch(
                [
                    Row(
                        task=0,
                        partition_index=partition_index,
                        segment_index=0,
                        bucket=bucket,
                        kind=RowKind.COMPARED,
                        payload=pickled(found),
                    )
                ]
            )
        freeze_gc("compare")

    return rows.repartitionById(tasks, "task").mapInArrow(compare, ROW_SCHEMA)


def _in_log_order(pieces: list[LatestValues]) -> list[LatestValues]:
    """Sort the pieces by offset; neither segments of one set nor parts of a segment overlap."""
    return sorted(pieces, key=lambda piece: int(piece.offset.min()))
