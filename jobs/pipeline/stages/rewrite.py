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

from tierfold.compaction.cleaning.offset_map import LOST, WON
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.pipeline.stages.segment_rows import (
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
from tierfold.jobs.pipeline.stages.worker_memory import settle
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


def redealt(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """The rows of the groups' segments, now for the tasks that `groups` names."""
    tasks = groups.select("partition_index", "segment_index", "task")
    keys = ["partition_index", "segment_index"]
    return rows.drop("task").join(F.broadcast(tasks), on=keys, how="inner").select(*ROW_COLUMNS)


Standings: TypeAlias = dict[tuple[int, int], list[Row]]
"""(partition index, segment index) → what is known of its records' standing."""

_BIT_OF: Final = {
    RowKind.OWN_LOST: LOST,
    RowKind.LOST: LOST,
    RowKind.OWN_WON: WON,
    RowKind.WON: WON,
}


def rewritten(
    rows: DataFrame, groups: DataFrame, tasks: int, tier_uri: str, bytes_done: Accumulator[int]
) -> DataFrame:
    """OWN_LOST, LOST, OWN_WON and WON rows, and `groups` → a RECEIPT or FAILED row per group.

    `groups` is of `GROUP_SCHEMA`; both are dealt to `tasks` tasks by their `task` column.
    """
    standings = rows.where(F.col("kind").isin([int(kind) for kind in _BIT_OF]))
    orders = groups.where(F.col("payload").isNotNull()).select(
        "task",
        "partition_index",
        "segment_index",
        F.lit(0).alias("bucket"),
        F.lit(int(RowKind.RECEIPT)).alias("kind"),
        "payload",
    )
    dealt = standings.unionByName(orders).repartitionById(tasks, "task")

    def rewrite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        standings: Standings = defaultdict(list)
        ordered: list[Row] = []
        for row in rows_of(batches):
            if row.kind is RowKind.RECEIPT:
                ordered.append(row)
            else:
                standings[row.partition_index, row.segment_index].append(row)
        for order in ordered:
            task: GroupTask = unpacked(order.payload)
            yield as_batch([_rewritten(tier_uri, order, task, standings)])
            bytes_done.add(task.group.size_bytes)
        settle("rewrite")

    return dealt.mapInArrow(rewrite, ROW_SCHEMA)


def _rewritten(tier_uri: str, order: Row, task: GroupTask, standings: Standings) -> Row:
    """The receipt of one group, or why its partition stops."""
    index_of = {
        segment.segment_id: order.segment_index + i
        for i, segment in enumerate(task.group.segments)
    }

    def standing(segment: Segment, records: int) -> NDArray[np.uint8]:
        return _standing(standings[order.partition_index, index_of[segment.segment_id]], records)

    try:
        kind = RowKind.RECEIPT
        payload = packed(rewrite_group(open_tier(tier_uri), task, standing))
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


def _standing(rows: Sequence[Row], records: int) -> NDArray[np.uint8]:
    """Shape (records,): what the rows of one segment say of its records."""
    standing = np.zeros(records, np.uint8)
    for row in rows:
        if row.kind in {RowKind.OWN_LOST, RowKind.OWN_WON}:
            bits = np.unpackbits(np.frombuffer(row.payload, np.uint8), count=records)
            standing |= bits * _BIT_OF[row.kind]
        else:
            standing[np.frombuffer(row.payload, np.uint32)] |= _BIT_OF[row.kind]
    return standing
