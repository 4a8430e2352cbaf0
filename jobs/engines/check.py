"""The two stages of `verify`: read every segment once, then compare the keys of each bucket.

As in `compact`, values stay in the worker that reads them. Only keys are shuffled, with the lengths
and digests of their latest values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tierfold.compaction.verification.comparison import compared
from tierfold.compaction.verification.latest_values import (
    LatestValues,
    deserialize_latest,
    latest_of,
    serialize_latest,
)
from tierfold.jobs.engines.rows import Found, Row, RowKind, SegmentStage, Worker, pickled
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStage(SegmentStage):
    """CHECK rows → CHECKED or FAILED, LATEST_NOW and LATEST_BEFORE rows."""

    def found(self, worker: Worker, _: Row, task: CheckOrder, /) -> Iterator[Found]:
        """Check the segment, and collect the latest values of its keys."""
        read = read_and_check(worker.tier, task, worker.proceed)
        if read.checked.is_near and read.checked.corruptions:
            read = read_and_check(worker.from_tier.tier, task, worker.proceed)
        yield RowKind.CHECKED, 0, pickled(read.checked)
        for kind, blocks in ((RowKind.LATEST_NOW, read.now), (RowKind.LATEST_BEFORE, read.before)):
            for bucket, latest in blocks:
                yield kind, bucket, serialize_latest(latest, task.hash_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareStage:
    """LATEST_NOW and LATEST_BEFORE rows → a COMPARED row per bucket; others pass through."""

    passes: Mapping[int, Sequence[int]]
    """By partition index, if versions decide: the offsets at which passes ended."""

    def __call__(self, _: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Compare the buckets of one task."""
        sides: dict[tuple[int, int], tuple[list[LatestValues], list[LatestValues]]] = defaultdict(
            lambda: ([], [])
        )
        for row in rows:
            if row.kind in {RowKind.LATEST_BEFORE, RowKind.LATEST_NOW}:
                side = sides[row.partition_index, row.bucket][row.kind is RowKind.LATEST_NOW]
                side.append(deserialize_latest(row.payload))
            else:
                yield row
        for (partition_index, bucket), (before, now) in sides.items():
            found = compared(
                latest_of(_in_log_order(before)),
                latest_of(_in_log_order(now)),
                self.passes.get(partition_index, ()),
            )
            yield Row(
                task=0,
                partition_index=partition_index,
                segment_index=0,
                bucket=bucket,
                kind=RowKind.COMPARED,
                payload=pickled(found),
            )


def _in_log_order(pieces: list[LatestValues]) -> list[LatestValues]:
    """Sort the pieces by offset; neither segments of one set nor parts of a segment overlap."""
    return sorted(pieces, key=lambda piece: int(piece.offset.min()))
