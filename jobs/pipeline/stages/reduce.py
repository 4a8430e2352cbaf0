"""Stage 5: the distributed offset map; it finds the superseded records of each key bucket.

All records of a key fall into one bucket, so buckets are independent, and a task holds one bucket
at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from tierfold.compaction.cleaning.key_blocks import KeyBlock, deserialize, parts_per_bucket
from tierfold.compaction.cleaning.offset_map import superseded_in_bucket
from tierfold.jobs.pipeline.stages.segment_rows import ROW_SCHEMA, Row, RowKind, as_batch, rows_of
from tierfold.jobs.pipeline.stages.worker_memory import freeze_gc


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducePlan:
    """The assignment of buckets to tasks, and the destinations of the results."""

    buckets: dict[int, int]
    """Number of buckets by partition index."""
    tasks: int
    """How many tasks share the buckets."""
    destinations: dict[tuple[int, int], int]
    """(partition index, segment index) → the task of stage 6 that rewrites the segment."""


def reduced(rows: DataFrame, plan: ReducePlan) -> DataFrame:
    """KEYS rows → SUPERSEDED and SUPERSEDING rows per segment; other rows pass through.

    Rows go to the task that rewrites their segment; rows without such a segment go to task 0.
    """

    def sent(found: Iterable[Row]) -> Iterator[Row]:
        for row in found:
            task = plan.destinations.get((row.partition_index, row.segment_index), 0)
            yield replace(row, task=task)

    def reduce(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks: dict[tuple[int, int], list[tuple[int, KeyBlock]]] = defaultdict(list)
        for row in rows_of(batches):
            if row.kind is RowKind.KEYS:
                place = blocks[row.partition_index, row.bucket]
                place.append((row.segment_index, deserialize(row.payload)))
            else:
                yield as_batch(sent([row]))
        for (partition_index, _), found in blocks.items():
            buckets = plan.buckets[partition_index]
            yield as_batch(sent(_bit_rows(partition_index, found, buckets)))
        freeze_gc("reduce")

    return rows.repartitionById(plan.tasks, "task").mapInArrow(reduce, ROW_SCHEMA)


def _bit_rows(
    partition_index: int, found: list[tuple[int, KeyBlock]], buckets: int
) -> Iterator[Row]:
    """Yield the superseded records of one bucket and, if versions decide, the superseding ones."""
    in_log_order = sorted(found, key=lambda entry: (entry[0], entry[1].first_ordinal))
    entries = superseded_in_bucket(
        [block for _, block in in_log_order], buckets, parts_per_bucket(buckets)
    )
    for (segment_index, _), places in zip(in_log_order, entries, strict=True):
        by_kind = {
            RowKind.SUPERSEDED: places.superseded,
            RowKind.SUPERSEDING: places.superseding,
        }
        for kind, ordinals in by_kind.items():
            if len(ordinals):
                yield Row(
                    task=0,
                    partition_index=partition_index,
                    segment_index=segment_index,
                    kind=kind,
                    payload=ordinals.tobytes(),
                )
