"""Stage 4: reads every segment of the round once; emits packed keys, bitmaps and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tierfold.compaction.cleaning.key_blocks import serialize
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.transactions import TransactionBatches, joined_batches
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.jobs.engines.rows import Row, RowKind, Worker, failure, pickled, unpickled
from tierfold.storage.segments.segment_scan import (
    ScannedSegment,
    ScanOrder,
    scan_segment,
    scan_transactions,
)
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """All a worker needs to scan one segment."""

    key: PartitionKey
    segment: Segment
    aborted: tuple[AbortedTransaction, ...]
    """Aborted transactions that reach into the segment."""
    order: ScanOrder | None
    """None: the segment is no source, only its transaction batches are read."""
    buckets: int
    first_bucket_task: int
    """The task of the reduce stage that takes the partition's first bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSummary:
    """What the driver learns of a scanned segment, or of all segments of a round."""

    txn_batches: TransactionBatches
    records: int = 0
    """Records of sources; of other segments only the transaction batches are read."""
    record_bytes: int = 0
    """Uncompressed."""
    malformed_versions: int = 0
    without_key: int = 0


def summed(found: Sequence[ScanSummary]) -> ScanSummary:
    """Return the summary of a round from those of its segments, in offset order."""
    return ScanSummary(
        txn_batches=joined_batches([one.txn_batches for one in found]),
        records=sum(one.records for one in found),
        record_bytes=sum(one.record_bytes for one in found),
        malformed_versions=sum(one.malformed_versions for one in found),
        without_key=sum(one.without_key for one in found),
    )


@dataclass(frozen=True, slots=True)
class ScanStage:
    """SCAN rows → KEYS, OWN_…, and SCANNED or FAILED rows."""

    def __call__(self, worker: Worker, rows: Iterable[Row]) -> Iterator[Row]:
        """Scan the segments of one task."""
        for row in rows:
            task: ScanTask = unpickled(row.payload)
            yield from _scanned(worker.tier, row, task)
            worker.advance(task.segment.size_bytes)


def _scanned(tier: LocalTieredStorage, row: Row, task: ScanTask) -> Iterator[Row]:
    """Yield the rows of one segment; a failure becomes one row, so other partitions go on."""
    segment = task.segment
    where = tier.log_name(task.key, segment)
    try:
        log = tier.read_log(task.key, segment)
        if task.order is None:
            summary = ScanSummary(txn_batches=scan_transactions(log, where=where))
            yield _row(row, task, RowKind.SCANNED, 0, pickled(summary))
            return
        found = scan_segment(log, task.aborted, task.order, where=where)
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        yield _row(row, task, RowKind.FAILED, 0, failure(error, where))
        return
    yield from _found_rows(row, task, found)


def _found_rows(row: Row, task: ScanTask, found: ScannedSegment) -> Iterator[Row]:
    for bucket, block in found.blocks:
        yield _row(row, task, RowKind.KEYS, bucket, serialize(block))
    # These pass the reduce stage unchanged; they are spread over its tasks.
    bucket = row.segment_index % task.buckets
    for kind, bit in ((RowKind.OWN_SUPERSEDED, SUPERSEDED), (RowKind.OWN_SUPERSEDING, SUPERSEDING)):
        bits = found.own_bits & bit
        if kind is RowKind.OWN_SUPERSEDED or bits.any():
            yield _row(row, task, kind, bucket, np.packbits(bits).tobytes())
    summary = ScanSummary(
        txn_batches=found.txn_batches,
        records=found.records,
        record_bytes=found.record_bytes,
        malformed_versions=found.malformed_versions,
        without_key=found.without_key,
    )
    yield _row(row, task, RowKind.SCANNED, bucket, pickled(summary))


def _row(of: Row, task: ScanTask, kind: RowKind, bucket: int, payload: bytes) -> Row:
    return Row(
        task=task.first_bucket_task + bucket,
        partition_index=of.partition_index,
        segment_index=of.segment_index,
        bucket=bucket,
        kind=kind,
        payload=payload,
    )
