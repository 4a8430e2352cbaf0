"""Stage 6: one task rewrites each group of segments and returns a receipt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.pipeline.stages.segment_rows import (
    ROW_COLUMNS,
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
from tierfold.storage.segments.group_rewrite import GroupTask, rewrite_group
from tierfold.storage.tiers.tier_uris import open_tier

GROUP_SCHEMA: Final = StructType(
    [
        StructField("task", IntegerType(), nullable=False),
        StructField("partition_index", IntegerType(), nullable=False),
        StructField("segment_index", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=True),
    ]
)
"""A row per source segment; `payload` is the packed `GroupTask` at a group's first segment."""


def reassigned(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """Assign the rows of the groups' segments to the tasks in `groups`."""
    tasks = groups.select("partition_index", "segment_index", "task")
    keys = ["partition_index", "segment_index"]
    return rows.drop("task").join(F.broadcast(tasks), on=keys, how="inner").select(*ROW_COLUMNS)


BitRows: TypeAlias = dict[tuple[int, int], list[Row]]
"""(partition index, segment index) → the rows that list its superseded records."""

_BIT_OF: Final = {
    RowKind.OWN_SUPERSEDED: SUPERSEDED,
    RowKind.SUPERSEDED: SUPERSEDED,
    RowKind.OWN_SUPERSEDING: SUPERSEDING,
    RowKind.SUPERSEDING: SUPERSEDING,
}


def rewritten(
    rows: DataFrame, groups: DataFrame, tasks: int, tier_uri: str, bytes_done: Accumulator[int]
) -> DataFrame:
    """The rows of `_BIT_OF` and `groups` → a RECEIPT or FAILED row per group.

    `groups` has `GROUP_SCHEMA`; both are assigned to `tasks` tasks by their `task` column.
    """
    bit_rows = rows.where(F.col("kind").isin([int(kind) for kind in _BIT_OF]))
    orders = groups.where(F.col("payload").isNotNull()).select(
        "task",
        "partition_index",
        "segment_index",
        F.lit(0).alias("bucket"),
        F.lit(int(RowKind.RECEIPT)).alias("kind"),
        "payload",
    )
    assigned = bit_rows.unionByName(orders).repartitionById(tasks, "task")

    def rewrite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bit_rows: BitRows = defaultdict(list)
        ordered: list[Row] = []
        for row in rows_of(batches):
            if row.kind is RowKind.RECEIPT:
                ordered.append(row)
            else:
                bit_rows[row.partition_index, row.segment_index].append(row)
        for order in ordered:
            task: GroupTask = unpickled(order.payload)
            yield as_batch([_rewritten(tier_uri, order, task, bit_rows)])
            bytes_done.add(task.group.size_bytes)
        freeze_gc("rewrite")

    return assigned.mapInArrow(rewrite, ROW_SCHEMA)


def _rewritten(tier_uri: str, order: Row, task: GroupTask, bit_rows: BitRows) -> Row:
    """Return the receipt of one group, or the reason why its partition stops."""
    index_of = {
        segment.segment_id: order.segment_index + i
        for i, segment in enumerate(task.group.segments)
    }

    def bits(segment: Segment, records: int) -> NDArray[np.uint8]:
        return _record_bits(bit_rows[order.partition_index, index_of[segment.segment_id]], records)

    try:
        kind = RowKind.RECEIPT
        payload = pickled(rewrite_group(open_tier(tier_uri), task, bits))
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        kind = RowKind.FAILED
        payload = failure(error, f"{task.key}, group {task.group_index}")
    return Row(
        task=0,
        partition_index=order.partition_index,
        segment_index=order.segment_index,
        kind=kind,
        payload=payload,
    )


def _record_bits(rows: Sequence[Row], records: int) -> NDArray[np.uint8]:
    """Shape (records,): the superseded and superseding bits of a segment's records."""
    bits = np.zeros(records, np.uint8)
    for row in rows:
        if row.kind in {RowKind.OWN_SUPERSEDED, RowKind.OWN_SUPERSEDING}:
            is_set = np.unpackbits(np.frombuffer(row.payload, np.uint8), count=records)
            bits |= is_set * _BIT_OF[row.kind]
        else:
            bits[np.frombuffer(row.payload, np.uint32)] |= _BIT_OF[row.kind]
    return bits
