"""Stage 4: reads every segment of the round once; emits packed keys, bitmaps and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame

from tierfold.compaction.cleaning.key_blocks import serialize
from tierfold.compaction.cleaning.offset_map import SUPERSEDED, SUPERSEDING
from tierfold.compaction.cleaning.transactions import TransactionBatches
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.pipeline.stages.segment_rows import (
    ROW_SCHEMA,
    Row,
    RowKind,
    as_batch,
    failure,
    pickled,
)
from tierfold.jobs.pipeline.stages.worker_memory import freeze_gc
from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.kafka.record_versions import VersionSource
from tierfold.storage.segments.segment_scan import (
    ScannedSegment,
    ScanOrder,
    scan_segment,
    scan_transactions,
)
from tierfold.storage.tiers.local_tiered_storage import Part, counted_from
from tierfold.storage.tiers.tier_uris import open_tier


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentScanned:
    """The driver's summary of a scanned segment."""

    txn_batches: TransactionBatches
    records: int = 0
    """Records of a source; of other segments only the transaction batches are read."""
    record_bytes: int = 0
    """Uncompressed."""
    malformed_versions: int = 0
    without_key: int = 0


def scanned(
    references: DataFrame, tasks: int, tier_uri: str, bytes_done: Accumulator[int]
) -> DataFrame:
    """`REFERENCE_SCHEMA` → `ROW_SCHEMA`: KEYS, OWN_…, SCANNED or FAILED rows.

    The references are assigned to `tasks` tasks by their `task` column.
    """
    assigned = references.repartitionById(tasks, "task")
    return assigned.mapInArrow(_scanner(tier_uri, bytes_done), ROW_SCHEMA)


def _scanner(
    tier_uri: str, bytes_done: Accumulator[int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for reference in batch.to_pylist():
                yield as_batch(_rows(tier_uri, reference))
                bytes_done.add(reference["size_bytes"])
        freeze_gc("scan")

    return scan


def _rows(tier_uri: str, reference: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of one segment; a failure becomes one row, so other partitions go on."""
    tier = open_tier(tier_uri)
    key = PartitionKey(
        topic=reference["topic"],
        partition=reference["partition"],
        topic_id=reference["topic_id"],
    )
    address = (key, reference["segment_id"], reference["own_start_offset"], Part.LOG)
    where = tier.uri(*address)
    try:
        log = tier.read_part(*address)[reference["skipped_bytes"] :]
        where = counted_from(where, reference["skipped_bytes"])
        if reference["transactions_only"]:
            txn_batches = scan_transactions(log, where=where)
            summary = SegmentScanned(txn_batches=txn_batches)
            yield _row(reference, RowKind.SCANNED, 0, pickled(summary))
            return
        aborted = read_transaction_index(reference["aborted"], where=where)
        found = scan_segment(
            log,
            aborted,
            ScanOrder(
                first_dirty=reference["first_dirty"],
                buckets=reference["buckets"],
                threads=reference["threads"],
                versions=VersionSource(
                    strategy=CompactionStrategy(reference["strategy"]),
                    header=reference["strategy_header"],
                ),
            ),
            where=where,
        )
    except Exception as error:  # noqa: BLE001 - it stops this partition alone, and is reported
        yield _row(reference, RowKind.FAILED, 0, failure(error, where))
        return
    yield from _found_rows(reference, found)


def _found_rows(reference: dict[str, Any], found: ScannedSegment) -> Iterator[Row]:
    for bucket, block in found.blocks:
        yield _row(reference, RowKind.KEYS, bucket, serialize(block))
    # These pass the reduce stage unchanged; they are spread over its tasks.
    bucket = reference["segment_index"] % reference["buckets"]
    for kind, bit in ((RowKind.OWN_SUPERSEDED, SUPERSEDED), (RowKind.OWN_SUPERSEDING, SUPERSEDING)):
        bits = found.own_bits & bit
        if kind is RowKind.OWN_SUPERSEDED or bits.any():
            yield _row(reference, kind, bucket, np.packbits(bits).tobytes())
    summary = SegmentScanned(
        txn_batches=found.txn_batches,
        records=found.records,
        record_bytes=found.record_bytes,
        malformed_versions=found.malformed_versions,
        without_key=found.without_key,
    )
    yield _row(reference, RowKind.SCANNED, bucket, pickled(summary))


def _row(reference: dict[str, Any], kind: RowKind, bucket: int, payload: bytes) -> Row:
    return Row(
        task=reference["first_bucket_task"] + bucket,
        partition_index=reference["partition_index"],
        segment_index=reference["segment_index"],
        bucket=bucket,
        kind=kind,
        payload=payload,
    )
