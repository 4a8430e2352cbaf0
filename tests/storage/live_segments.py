"""Writes segments to a tier, batch by batch, with the files beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.compaction.hash_keys import FINGERPRINT, HASH_KEY
from tierfold.compaction.cleaning.record_retention import RoundRules
from tierfold.compaction.cleaning.rounds import GroupTask
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.origins import origin_of
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.compaction.planning.grouping import SegmentGroup
from tierfold.storage.indexes.offset_index import OffsetIndex, read_offset_index, write_offset_index
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft, write_batch
from tierfold.storage.kafka.control_records import ControlType, end_marker
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.log_pieces import LogPiece, read_piece
from tierfold.storage.segments.segment_check import CheckOrder
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of
from tierfold.storage.tiers.tier_uris import open_tier

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
    """An entry of a transaction index."""
    return AbortedTransaction(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=last_offset + 1,
    )


def put_segment(
    tier: RemoteTier,
    batches: Sequence[BatchDraft | bytes],
    *,
    offsets: tuple[int, int],
    aborted: Sequence[AbortedTransaction] = (),
    run: str = "",
    index_interval_bytes: int = INTERVAL_BYTES,
) -> Segment:
    """Write a segment of first and last `offsets`; return its metadata for the catalog."""
    start_offset, end_offset = offsets
    upload = BrokerUpload(
        start_offset=start_offset,
        log=log_of(batches),
        index_interval_bytes=index_interval_bytes,
        lineage=EPOCHS,
        aborted=tuple(aborted),
    )
    return replace(upload.put(tier, KEY, end_offset), origin=origin_of(run))


def a_group_task(segments: Sequence[Segment], **fields: Any) -> GroupTask:
    """A task for the segments as one group, at the end of the round, at time 500."""
    no_pairs = np.empty((0, 2), np.int64)
    task = GroupTask(
        key=KEY,
        group_index=4,
        group=SegmentGroup(segments=tuple(segments)),
        rules=RoundRules(
            now_ms=500,
            delete_retention_ms=1000,
            remote_end=segments[-1].next_offset,
            last_data_offsets=no_pairs,
            marker_epochs=no_pairs,
        ),
        aborted=(),
        discardable=np.empty(0, np.int64),
        listed=(),
        ends_in_batch=False,
        run="run-1",
        fingerprint=FINGERPRINT,
        index_interval_bytes=INTERVAL_BYTES,
    )
    return replace(task, **fields)


def a_check_order(segment: Segment, **fields: Any) -> CheckOrder:
    """An order to check the last live segment, without its keys."""
    order = CheckOrder(
        hash_key=HASH_KEY,
        key=KEY,
        segment=segment,
        is_live=True,
        is_last=True,
        index_interval_bytes=INTERVAL_BYTES,
        buckets=2,
        aborted_now=None,
        aborted_before=None,
    )
    return replace(order, **fields)


def offsets_in(tier: LocalTieredStorage, pieces: Iterable[LogPiece]) -> list[int]:
    """The offsets of the wanted records of the pieces."""
    return [
        int(chosen.records.offset[row])
        for piece in pieces
        for chosen in read_piece(tier, piece)
        for row in chosen.rows
    ]


def move_index(path: Path, start_offset: int, by: int) -> None:
    """Raise the offset of every entry of an offset index by `by`; drop entries below the start."""
    index = read_offset_index(path.read_bytes(), start_offset, "here")
    kept = index.offsets + by >= start_offset
    moved = OffsetIndex(offsets=index.offsets[kept] + by, positions=index.positions[kept])
    path.write_bytes(write_offset_index(moved, start_offset))


def log_of(batches: Sequence[BatchDraft | bytes]) -> bytes:
    """The batches, one after the other; bytes are taken as they are."""
    return b"".join(batch if isinstance(batch, bytes) else write_batch(batch) for batch in batches)


def flip_bit(path: Path, at: int = -1) -> None:
    """Flip the lowest bit of one byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def part_file(tier: LocalTieredStorage, segment: Segment, part: Part) -> Path:
    """The file of a segment's part, for tests that corrupt it."""
    return Path(tier.uri(address_of(KEY, segment), part))
