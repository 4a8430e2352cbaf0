"""Segments as they lie in a tier, written down batch by batch, with everything that goes along."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compaction.aborted import AbortedTransaction
from compaction.segments import LeaderEpoch, PartitionKey, Segment
from storage.batch_draft import BatchDraft, RecordDraft, write_batch
from storage.batch_heads import read_heads
from storage.control_records import ControlType, end_marker
from storage.index_builder import build_indexes
from storage.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from storage.local_tiered_storage import TIER_FOLDER, LocalTieredStorage, Part
from storage.producer_snapshot import write_producer_snapshot
from storage.tiers import open_tier
from storage.transaction_index import write_transaction_index

KEY = PartitionKey(topic="orders", partition=0, topic_id="EnvZlVwBRBCOjS6Uhrdc6w")
NOW_MS = 1_700_000_000_000
INTERVAL_BYTES = 100
EPOCHS = (LeaderEpoch(epoch=3, start_offset=0),)


def a_tier(folder: Path) -> LocalTieredStorage:
    """An empty tier."""
    (folder / TIER_FOLDER).mkdir(parents=True)
    return open_tier(str(folder))


def data(base: int, *pairs: tuple[bytes | None, bytes | None], producer_id: int = -1) -> BatchDraft:
    """A batch of epoch 3, one record per pair; with a producer it is transactional."""
    records = tuple(
        RecordDraft(offset=base + i, timestamp_ms=NOW_MS + base + i, key=key, value=value)
        for i, (key, value) in enumerate(pairs)
    )
    return BatchDraft(
        base_offset=base,
        records=records,
        leader_epoch=3,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> BatchDraft:
    """The end of a transaction."""
    key, value = end_marker(0, kind)
    return BatchDraft(
        base_offset=offset,
        records=(RecordDraft(offset=offset, timestamp_ms=NOW_MS + offset, key=key, value=value),),
        leader_epoch=3,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def an_abort(producer_id: int, first_offset: int, last_offset: int) -> AbortedTransaction:
    """What an index lists."""
    return AbortedTransaction(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=last_offset + 1,
    )


def put_segment(
    tier: LocalTieredStorage,
    batches: Sequence[BatchDraft | bytes],
    *,
    offsets: tuple[int, int],
    aborted: Sequence[AbortedTransaction] = (),
    run: str = "",
    index_interval_bytes: int = INTERVAL_BYTES,
) -> Segment:
    """Write a segment of first and last `offsets`; what the catalog would say of it."""
    log = b"".join(each if isinstance(each, bytes) else write_batch(each) for each in batches)
    heads = read_heads(np.frombuffer(log, np.uint8), where="draft")
    start_offset, end_offset = offsets
    offset_index, time_index = build_indexes(
        heads.position,
        heads.size_bytes,
        heads.last_offset,
        heads.max_timestamp_ms,
        start_offset=start_offset,
        index_interval_bytes=index_interval_bytes,
    )
    staged = tier.new_segment(KEY, start_offset)
    with staged.open_log() as writer:
        writer.write(log)
    staged.put(Part.OFFSET_INDEX, offset_index)
    staged.put(Part.TIME_INDEX, time_index)
    if aborted:
        staged.put(Part.TRANSACTION_INDEX, write_transaction_index(aborted))
    staged.put(Part.SNAPSHOT, write_producer_snapshot([]))
    staged.put(Part.LEADER_EPOCH_CHECKPOINT, write_leader_epoch_checkpoint(EPOCHS))
    return Segment(
        segment_id=staged.segment_id,
        start_offset=start_offset,
        end_offset=end_offset,
        size_bytes=len(log),
        offset_index_bytes=len(offset_index),
        time_index_bytes=len(time_index),
        max_timestamp_ms=int(heads.max_timestamp_ms.max(initial=-1)),
        leader_epochs=(LeaderEpoch(epoch=3, start_offset=start_offset),),
        has_transaction_index=bool(aborted),
        first_timestamp_ms=int(heads.max_timestamp_ms[0]) if len(heads) else -1,
        written_by_run=run,
    )


def part_file(folder: Path, tier: LocalTieredStorage, segment: Segment, part: Part) -> Path:
    """Where a part of the segment lies, for those who mean to damage it."""
    return folder / tier.object_key(KEY, segment.segment_id, segment.start_offset, part)
