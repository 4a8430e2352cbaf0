"""The two stages of `verify`: read every segment once, then compare the keys of each bucket.

As in `compact`, values stay in the worker that read them: only keys are shuffled, with the lengths
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
from tierfold.jobs.engines.rows import Row, RowKind, Worker, failure, pickled, unpickled
from tierfold.storage.segments.segment_check import CheckOrder, read_and_check
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTask:
    """All a worker needs to check one segment."""

    order: CheckOrder
    first_bucket_task: int
    """The task of the comparison that takes the partition's first bucket."""


@dataclass(frozen=True, slots=True)
class CheckStage:
    """CHECK rows → CHECKED or FAILED, LATEST_NOW and LATEST_BEFORE rows."""

    def __call__(self, worker: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Check the segments of one task."""
        for row in rows:
            task: CheckTask = unpickled(row.payload)
            yield from _checked(worker.tier, row, task)
            worker.advance(task.order.segment.size_bytes)


def _checked(tier: LocalTieredStorage, of: Row, task: CheckTask) -> Iterator[Row]:
    """Yield the rows of one segment; a failure becomes one row, so other segments go on."""
    order = task.order

    def row(kind: RowKind, payload: bytes, bucket: int = 0) -> Row:
        return Row(
            task=task.first_bucket_task + bucket,
            partition_index=of.partition_index,
            segment_index=of.segment_index,
            bucket=bucket,
            kind=kind,
            payload=payload,
        )

    try:
        found = read_and_check(tier, order)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareStage:
    """LATEST_NOW and LATEST_BEFORE rows → a COMPARED row per bucket; others pass through."""

    passes: Mapping[int, Sequence[int]]
    """If versions decide: the offsets at which passes ended, by partition index."""

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
