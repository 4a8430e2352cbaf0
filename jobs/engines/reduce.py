"""Stage 5: the distributed offset map, which finds the superseded records of each key bucket.

All records of a key are in one bucket, so buckets are independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tierfold.compaction.cleaning.key_blocks import head_of, joined_blocks, parts_per_bucket
from tierfold.compaction.cleaning.offset_map import superseded_in_bucket
from tierfold.jobs.engines.rows import Row, RowKind, Worker

_Blocks: TypeAlias = dict[tuple[int, int], list[tuple[int, bytes]]]
"""(partition index, bucket) → the segment index and the bytes of each block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceStage:
    """KEYS rows → SUPERSEDED and SUPERSEDING rows per segment; other rows pass through.

    Each row goes to the task that rewrites its segment, or to task 0 if none does. COMPETING rows
    are dropped: the driver has already read them.
    """

    buckets: Mapping[int, int]
    """Number of buckets by partition index."""
    shuffled_to: int
    """Into how many partitions the rows were shuffled, each by the remainder of its `task`."""
    task_of: Mapping[tuple[int, int], int]
    """(partition index, segment index) → the task of stage 6 that rewrites the segment."""

    def __call__(self, _: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Reduce the buckets of one task, those of one shuffle partition at a time.

        Raises RuntimeError if rows of one partition are not together.
        """
        blocks: _Blocks = defaultdict(list)
        passed: set[int] = set()
        current: int | None = None
        for row in rows:
            partition = row.task % self.shuffled_to
            if partition != current:
                yield from self._reduced(blocks)
                if partition in passed:
                    raise RuntimeError(f"rows of shuffle partition {partition} are not together")
                passed.add(partition)
                current = partition
            if row.kind is RowKind.KEYS:
                blocks[row.partition_index, row.bucket].append((row.segment_index, row.payload))
            elif row.kind is not RowKind.COMPETING:
                yield self._sent(row)
        yield from self._reduced(blocks)

    def _reduced(self, blocks: _Blocks) -> Iterator[Row]:
        """Reduce the blocks, and free them."""
        for place in [*blocks]:
            for row in _bit_rows(place[0], blocks.pop(place), self.buckets[place[0]]):
                yield self._sent(row)

    def _sent(self, row: Row) -> Row:
        return replace(row, task=self.task_of.get(row.place, 0))


def _bit_rows(
    partition_index: int, found: list[tuple[int, bytes]], buckets: int
) -> Iterator[Row]:
    """Yield the superseded records of one bucket and, if versions decide, the superseding ones."""
    in_log_order = sorted(found, key=lambda entry: (entry[0], head_of(entry[1]).first_ordinal))
    bucket = joined_blocks([block for _, block in in_log_order])
    entries = superseded_in_bucket(bucket, buckets, parts_per_bucket(buckets))
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
