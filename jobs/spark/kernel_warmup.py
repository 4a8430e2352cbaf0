"""Compiles every kernel by running a small job through all of them, without Spark.

numba compiles a kernel at its first call, once for each kind of arguments (read-only and writable
arrays are two kinds), and caches the machine code in `__pycache__` beside the source, for every
process that runs the same files. So the small job below calls the functions of the stages on
segments with every kind of batch.

    python -m tierfold.jobs.spark.kernel_warmup
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tierfold.compaction.cleaning.key_blocks import (
    KeyBlock,
    deserialize,
    parts_per_bucket,
    serialize,
)
from tierfold.compaction.cleaning.offset_map import superseded_in_bucket
from tierfold.compaction.cleaning.record_retention import RoundRules
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.cleaning.transactions import transaction_status
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.rules import CompactionStrategy
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.compaction.model.units import OffsetSpan
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.compaction.verification.comparison import compared
from tierfold.compaction.verification.latest_values import (
    LatestValues,
    deserialize_latest,
    latest_of,
    serialize_latest,
)
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.checksums import checksum
from tierfold.storage.kafka.compression import Codec, compress
from tierfold.storage.kafka.control_records import ControlType, end_marker
from tierfold.storage.kafka.record_versions import OFFSETS_DECIDE, VersionSource
from tierfold.storage.segments.arrow_records import record_batches
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.group_rewrite import rewrite_group
from tierfold.storage.segments.log_pieces import pieces_of, read_piece
from tierfold.storage.segments.segment_check import CheckOrder, ReadSegment, read_and_check
from tierfold.storage.segments.segment_scan import ScannedSegment, ScanOrder, scan_segment
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage, Part
from tierfold.storage.tiers.tier_uris import open_tier

KEY: Final = PartitionKey(topic="warmup", partition=0, topic_id="AAAAAAAAAAAAAAAAAAAAAA")
EPOCH: Final = LeaderEpoch(epoch=0, start_offset=0)
PRODUCER_ID: Final = 1
HEADER: Final = "version"
TIMESTAMP_MS: Final = 1_700_000_000_000
BUCKETS: Final = 1
INDEX_INTERVAL_BYTES: Final = 1
"""Every batch but the first has an index entry."""

FIELDS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("value_digest", pa.binary()),
        ("version", pa.int64()),
    ]
)
"""The columns whose kernels a reader uses: copied bytes, headers, and derived values."""

_SECOND_START: Final = 10
_LEGACY: Final = struct.Struct(">qiIbbqi")
"""Offset, size, crc, magic, attributes, timestamp, key length: a message of magic 1 (KIP-32)."""


def warm_kernels() -> None:
    """Run every kernel once for each kind of arguments that the jobs use."""
    with tempfile.TemporaryDirectory(prefix="tierfold-warmup-") as folder:
        (Path(folder) / TIER_FOLDER).mkdir()
        tier = open_tier(folder)
        aborted = _aborted(first_offset=2, marker_offset=4)
        segments = (
            _uploaded(tier, 0, _first_log(), aborted),
            _uploaded(tier, _SECOND_START, _second_log(), ()),
        )
        scans = {
            strategy: [_scanned(tier, segment, aborted, strategy) for segment in segments]
            for strategy in CompactionStrategy
        }
        for found in scans.values():
            _reduce(found)
        _rewrite(tier, segments, scans[CompactionStrategy.OFFSET], aborted)
        _read(tier, segments[0], aborted)
        for strategy in CompactionStrategy:
            _verify(tier, segments, aborted, _versions(strategy))
        _verify(tier, [_uploaded(tier, 0, _legacy_log(), ())], (), OFFSETS_DECIDE)


def _record(offset: int, key: bytes | None, value: bytes | None) -> RecordDraft:
    return RecordDraft(
        offset=offset,
        timestamp_ms=TIMESTAMP_MS + offset,
        key=key,
        value=value,
        headers=((HEADER.encode(), struct.pack(">q", offset)), (b"null", None)),
    )


def _first_log() -> bytes:
    """Plain records, a transaction with its ABORT marker, and a repeated key."""
    key, value = end_marker(0, ControlType.ABORT)
    marker = RecordDraft(offset=4, timestamp_ms=TIMESTAMP_MS, key=key, value=value)
    drafts = (
        BatchDraft(
            base_offset=0,
            records=(_record(0, b"a longer key", b"old"), _record(1, b"a longer key", b"new")),
            leader_epoch=EPOCH.epoch,
        ),
        BatchDraft(
            base_offset=2,
            records=(_record(2, b"lost", b"1"), _record(3, b"lost", b"2")),
            leader_epoch=EPOCH.epoch,
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        ),
        BatchDraft(
            base_offset=4,
            records=(marker,),
            leader_epoch=EPOCH.epoch,
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        ),
        BatchDraft(
            base_offset=5,
            records=(_record(5, b"kept", b"x"), _record(9, None, b"no key")),
            leader_epoch=EPOCH.epoch,
        ),
    )
    return b"".join(map(write_batch, drafts))


def _second_log() -> bytes:
    """A compressed batch: its records are in a separate buffer."""
    at = _SECOND_START
    records = (
        _record(at, b"kept", b"y"),
        _record(at + 1, b"kept", b"z"),
        _record(at + 2, b"a tombstone", None),
    )
    return write_batch(
        BatchDraft(
            base_offset=at, records=records, codec=Codec.GZIP, leader_epoch=EPOCH.epoch
        )
    )


def _legacy_log() -> bytes:
    """A message of magic 1, and a compressed one with an inner message; all verbs read both."""
    plain = _message(0, Codec.NONE, b"key", b"value")
    inner = _message(0, Codec.NONE, b"key", b"newer")
    return plain + _message(1, Codec.GZIP, None, compress(Codec.GZIP, inner))


def _message(offset: int, codec: Codec, key: bytes | None, value: bytes) -> bytes:
    tail = (key or b"") + struct.pack(">i", len(value)) + value
    size_bytes = _LEGACY.size - 12 + len(tail)
    key_bytes = -1 if key is None else len(key)

    def whole(crc: int) -> bytes:
        head = _LEGACY.pack(offset, size_bytes, crc, 1, codec, TIMESTAMP_MS, key_bytes)
        return head + tail

    return whole(checksum(np.frombuffer(whole(0), np.uint8), magic=1))


def _aborted(*, first_offset: int, marker_offset: int) -> tuple[AbortedTransaction, ...]:
    return (
        AbortedTransaction(
            producer_id=PRODUCER_ID,
            first_offset=first_offset,
            last_offset=marker_offset,
            last_stable_offset=marker_offset + 1,
        ),
    )


def _uploaded(
    tier: LocalTieredStorage,
    start_offset: int,
    log: bytes,
    aborted: Sequence[AbortedTransaction],
) -> Segment:
    """Write a segment as a broker would; return its metadata as in the catalog."""
    upload = BrokerUpload(
        start_offset=start_offset,
        log=log,
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        lineage=(EPOCH,),
        aborted=tuple(aborted),
    )
    return upload.put(tier, KEY)


def _scanned(
    tier: LocalTieredStorage,
    segment: Segment,
    aborted: Sequence[AbortedTransaction],
    strategy: CompactionStrategy,
) -> ScannedSegment:
    """As `jobs.engines.scan`, with the driver's work on transaction batches."""
    address = (KEY, segment.segment_id, segment.start_offset, Part.LOG)
    found = scan_segment(
        tier.read_part(*address),
        aborted,
        ScanOrder(
            first_dirty=0,
            buckets=BUCKETS,
            versions=_versions(strategy),
        ),
        where=tier.uri(*address),
    )
    transaction_status(found.txn_batches, aborted)
    return found


def _versions(strategy: CompactionStrategy) -> VersionSource:
    return VersionSource(strategy=strategy, header=HEADER)


def _reduce(found: Sequence[ScannedSegment]) -> None:
    """As `stages.reduce`: the keys of one block are views, those of several are joined."""
    shuffled = [_shuffled(block) for scan in found for _, block in scan.blocks]
    for blocks in (shuffled[:1], shuffled):
        superseded_in_bucket(blocks, BUCKETS, parts_per_bucket(BUCKETS))


def _shuffled(block: KeyBlock) -> KeyBlock:
    return deserialize(serialize(block))


def _rewrite(
    tier: LocalTieredStorage,
    segments: tuple[Segment, ...],
    found: Sequence[ScannedSegment],
    aborted: tuple[AbortedTransaction, ...],
) -> None:
    """As `jobs.engines.rewrite`, both segments into one."""
    lost = {
        segment.segment_id: scan.own_bits for segment, scan in zip(segments, found, strict=True)
    }
    none = np.empty((0, 2), np.int64)
    task = GroupTask(
        key=KEY,
        group_index=0,
        group=SegmentGroup(segments=segments),
        rules=RoundRules(
            now_ms=TIMESTAMP_MS,
            delete_retention_ms=1,
            next_offset=segments[-1].next_offset,
            last_data_offsets=none,
            marker_epochs=none,
        ),
        aborted=aborted,
        discardable=np.empty(0, np.int64),
        listed=aborted,
        ends_in_batch=True,
        run="warm-up",
        index_interval_bytes=INDEX_INTERVAL_BYTES,
    )
    rewrite_group(tier, task, lambda segment, _records: lost[segment.segment_id])


def _read(
    tier: LocalTieredStorage, segment: Segment, aborted: tuple[AbortedTransaction, ...]
) -> None:
    """As `jobs.sources.segment_source`."""
    wanted = OffsetSpan(start=segment.start_offset, end=segment.next_offset)
    for piece in pieces_of(tier, KEY, segment, wanted, aborted, segment.size_bytes):
        for chosen in read_piece(tier, piece):
            versions = _versions(CompactionStrategy.HEADER)
            list(record_batches(KEY, chosen, FIELDS, where="warm-up", versions=versions))


def _verify(
    tier: LocalTieredStorage,
    segments: Sequence[Segment],
    aborted: tuple[AbortedTransaction, ...],
    versions: VersionSource,
) -> None:
    """As `jobs.engines.check`: keys of a bucket from no, one and several segments."""
    checked = [_checked(tier, segment, aborted, versions) for segment in segments]
    latest = [_shuffled_latest(latest) for segment in checked for _, latest in segment.now]
    sides = [latest_of(pieces) for pieces in ([], latest[:1], latest)]
    for before in sides:
        for now in sides:
            compared(before, now)


def _checked(
    tier: LocalTieredStorage,
    segment: Segment,
    aborted: tuple[AbortedTransaction, ...],
    versions: VersionSource,
) -> ReadSegment:
    order = CheckOrder(
        key=KEY,
        segment=segment,
        is_live=True,
        is_last=True,
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        buckets=BUCKETS,
        aborted_now=aborted,
        aborted_before=None,
        versions=versions,
    )
    return read_and_check(tier, order)


def _shuffled_latest(latest: LatestValues) -> LatestValues:
    return deserialize_latest(serialize_latest(latest))


if __name__ == "__main__":
    warm_kernels()
