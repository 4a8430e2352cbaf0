"""Stage 6: each group of segments is rewritten by one task, which returns a receipt."""

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

from compaction.segments import Segment
from jobs.stages.segment_rows import (
    ROW_COLUMNS,
    ROW_SCHEMA,
    Row,
    RowKind,
    as_batch,
    failure,
    packed,
    rows_of,
    unpacked,
)
from jobs.stages.worker_memory import settle
from storage.group_rewrite import GroupTask, rewrite_group
from storage.tiers import open_tier

GROUP_SCHEMA: Final = StructType(
    [
        StructField("task", IntegerType(), nullable=False),
        StructField("partition_index", IntegerType(), nullable=False),
        StructField("segment_index", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=True),
    ]
)
"""A row per source segment; `payload` is the packed `GroupTask` at a group's first segment."""

Lost: TypeAlias = dict[tuple[int, int], list[Row]]
"""(partition index, segment index) → what is known to be superseded there."""


def rewritten(
    rows: DataFrame, groups: DataFrame, tasks: int, tier_uri: str, bytes_done: Accumulator[int]
) -> DataFrame:
    """OWN_LOST and LOST rows, and `groups` → a RECEIPT or FAILED row per group.

    `groups` is of `GROUP_SCHEMA` and dealt to `tasks` tasks by its `task` column.
    """
    is_loss = F.col("kind").isin(int(RowKind.OWN_LOST), int(RowKind.LOST))
    losses = (
        rows.where(is_loss)
        .drop("task")
        .join(
            F.broadcast(groups.select("partition_index", "segment_index", "task")),
            on=["partition_index", "segment_index"],
            how="inner",
        )
        .select(*ROW_COLUMNS)
    )
    orders = groups.where(F.col("payload").isNotNull()).select(
        "task",
        "partition_index",
        "segment_index",
        F.lit(0).alias("bucket"),
        F.lit(int(RowKind.RECEIPT)).alias("kind"),
        "payload",
    )
    dealt = losses.unionByName(orders).repartitionById(tasks, "task")

    def rewrite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lost: Lost = defaultdict(list)
        ordered: list[Row] = []
        for row in rows_of(batches):
            if row.kind is RowKind.RECEIPT:
                ordered.append(row)
            else:
                lost[row.partition_index, row.segment_index].append(row)
        for order in ordered:
            task: GroupTask = unpacked(order.payload)
            yield as_batch([_rewritten(tier_uri, order, task, lost)])
            bytes_done.add(task.group.size_bytes)
        settle("rewrite")

    return dealt.mapInArrow(rewrite, ROW_SCHEMA)


def _rewritten(tier_uri: str, order: Row, task: GroupTask, lost: Lost) -> Row:
    """The receipt of one group, or why its partition stops."""
    index_of = {
        segment.segment_id: order.segment_index + i
        for i, segment in enumerate(task.group.segments)
    }

    def superseded(segment: Segment, records: int) -> NDArray[np.bool_]:
        return _mask(lost[order.partition_index, index_of[segment.segment_id]], records)

    try:
        kind = RowKind.RECEIPT
        payload = packed(rewrite_group(open_tier(tier_uri), task, superseded))
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


def _mask(rows: Sequence[Row], records: int) -> NDArray[np.bool_]:
    """Shape (records,): what the rows of one segment say is superseded."""
    mask = np.zeros(records, np.bool_)
    for row in rows:
        if row.kind is RowKind.OWN_LOST:
            bits = np.unpackbits(np.frombuffer(row.payload, np.uint8), count=records)
            mask |= bits.astype(np.bool_)
        else:
            mask[np.frombuffer(row.payload, np.uint32)] = True
    return mask
