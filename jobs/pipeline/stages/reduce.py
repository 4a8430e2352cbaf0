"""Stage 5: the distributed offset map. All blocks of one key bucket meet; losers are named.

A key lies in one bucket whatever segment holds it, so a bucket decides its keys alone, and no task
ever holds more than a bucket.
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
    """How the buckets are shared, and where what comes out is to go."""

    buckets: dict[int, int]
    """Per partition index how many buckets it has."""
    tasks: int
    """How many tasks share them."""
    destinations: dict[tuple[int, int], int]
    """(partition index, segment index) → the task of stage 6 that rewrites the segment."""


def reduced(rows: DataFrame, plan: ReducePlan) -> DataFrame:
    """KEYS rows → SUPERSEDED and SUPERSEDING rows per segment; other rows pass through.

    All of them leave for the task that rewrites their segment; those of no such segment for task 0.
    """

    def sent(told: Iterable[Row]) -> Iterator[Row]:
        for row in told:
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
    """The superseded records of one bucket and, where versions decide, those that supersede."""
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
