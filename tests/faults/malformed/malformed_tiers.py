"""Malformed objects in a tier, read as a run reads them: segment metadata, and a round.

Either the run refuses the partition, or the live records after the round equal those that a
dictionary keeps from the same bytes.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import numpy as np

from tests.faults.malformed.malformed_bytes import corrupted
from tests.faults.malformed.malformed_logs import legacy_log, malformed, v2_log
from tests.faults.malformed.malformed_outcome import Outcome, Parser, must_equal, refused
from tests.faults.malformed.malformed_reference import (
    LeftOpen,
    Meaningless,
    PlainBatch,
    PlainRecord,
    cut_in_batches,
    plain_batches,
)
from tests.pictures.cleaning import passed
from tests.pictures.log_pictures import INDEX_INTERVAL_BYTES, KEY, Log
from tests.scratch import SCRATCH
from tests.storage.new_ids import new_address
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, Segment
from tierfold.compaction.model.units import LEADER_EPOCH_MAX, OFFSET_MAX
from tierfold.storage.indexes.index_builder import build_indexes
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import write_producer_snapshot
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.segments.segment_metadata import listed_checkpoint, read_segment_metadata
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part, address_of
from tierfold.storage.tiers.tier_uris import open_tier

NOW_MS: Final = 1000
"""Past some of the logs' delete horizons and before the others."""
_EPOCHS: Final = (LeaderEpoch(epoch=0, start_offset=0), LeaderEpoch(epoch=3, start_offset=2**39))


class Objects(NamedTuple):
    """One segment's objects."""

    start_offset: int
    log: bytes
    offset_index: bytes
    time_index: bytes
    checkpoint: bytes


def _objects(rng: Random, *, corrupt: bool) -> Objects:
    """Draw a sound log and its side files; with `corrupt`, one or two of them malformed."""
    log = rng.choice((v2_log, v2_log, legacy_log))(rng)
    heads = read_heads(np.frombuffer(log, np.uint8), where="a sound log")
    start = plain_batches(log)[0].base_offset
    offset_index, time_index = build_indexes(
        heads, start_offset=start, index_interval_bytes=INDEX_INTERVAL_BYTES
    )
    parts = [log, offset_index, time_index, write_leader_epoch_checkpoint(_EPOCHS)]
    if corrupt:
        for i in rng.sample(range(4), rng.choice((1, 1, 2))):
            parts[i] = malformed(log, rng) if i == 0 else corrupted(parts[i], rng)
        start = rng.choice((start, start, start, start + 1, 0, OFFSET_MAX))
    return Objects(start, *parts)


@contextmanager
def _tier() -> Iterator[LocalTieredStorage]:
    with tempfile.TemporaryDirectory(prefix="tierfold-malformed-", dir=SCRATCH) as folder:
        (Path(folder) / TIER_FOLDER).mkdir()
        yield open_tier(folder)


def _put(tier: LocalTieredStorage, objects: Objects) -> ListedSegment:
    staged = tier.new_segment(new_address(KEY, objects.start_offset))
    with staged.open_log() as writer:
        writer.write(objects.log)
    staged.put(Part.OFFSET_INDEX, objects.offset_index)
    staged.put(Part.TIME_INDEX, objects.time_index)
    staged.put(Part.SNAPSHOT, write_producer_snapshot(_open_producers(objects.log)))
    staged.put(Part.LEADER_EPOCH_CHECKPOINT, objects.checkpoint)
    return tier.listing(KEY)[-1]


def _open_producers(log: bytes) -> list[ProducerEntry]:
    """Return an entry for each transaction: a round refuses one with neither marker nor entry."""
    try:
        batches = plain_batches(log, has_sums=False)
    except (Meaningless, LeftOpen):
        return []
    first_offsets: dict[int, int] = {}
    for batch in batches:
        if batch.magic == 2 and batch.attributes & 0x10 and not batch.is_control:
            first_offsets.setdefault(batch.producer_id, batch.base_offset)
    return [
        ProducerEntry(
            producer_id=producer_id,
            epoch=0,
            last_sequence=-1,
            last_data_offset=NO_DATA_OFFSET,
            last_offset_delta=0,
            last_timestamp_ms=0,
            coordinator_epoch=0,
            current_txn_first_offset=first_offset,
        )
        for producer_id, first_offset in first_offsets.items()
    ]


def _checked_metadata(objects: Objects) -> Outcome:
    with _tier() as tier:
        listed = _put(tier, objects)
        try:
            checkpoint = listed_checkpoint(tier, KEY, listed)
            found = read_segment_metadata(tier, KEY, listed, checkpoint).segment
        except TierfoldError as error:
            return refused(error)
    _must_fit(found)
    # The metadata is read from the last index entry on, so the log may be torn before it.
    with suppress(Meaningless):
        # Checksums and records are not read yet; a legacy wrapper ends at its own offset.
        last = list(cut_in_batches(objects.log))[-1]
        (end_offset,) = struct.unpack_from(">q", last)
        if last[16] == 2:
            end_offset += struct.unpack_from(">i", last, 23)[0]
        must_equal(found.end_offset, end_offset)
    return Outcome.RIGHT


def _must_fit(segment: Segment) -> None:
    """Check that every number, and the offset after the end, fits its column in the catalog."""
    must_equal(0 <= segment.start_offset <= segment.end_offset <= OFFSET_MAX, True)
    must_equal(-(2**63) <= segment.max_timestamp_ms < 2**63, True)
    for epoch in segment.leader_epochs:
        must_equal(0 <= epoch.epoch <= LEADER_EPOCH_MAX, True)
        must_equal(0 <= epoch.start_offset <= OFFSET_MAX, True)


def _checked_round(objects: Objects) -> Outcome:
    """Check a first round over the segment alone, by offset."""
    with _tier() as tier:
        try:
            listed = _put(tier, objects)
            checkpoint = listed_checkpoint(tier, KEY, listed)
            segment = read_segment_metadata(tier, KEY, listed, checkpoint).segment
            log = Log(tier=tier, segments=(segment,), lineage=_EPOCHS, is_last_beyond=False)
            after = passed(log, now_ms=NOW_MS).log
        except TierfoldError as error:
            return refused(error)
        kept = [
            tier.read_part(address_of(KEY, segment), Part.LOG).tobytes()
            for segment in after.segments
        ]
    try:
        expected = survivors(plain_batches(objects.log))
    except LeftOpen:
        return Outcome.RIGHT
    found = [batch for data in kept for batch in plain_batches(data)]
    records = [record for batch in found if not batch.is_control for record in batch.records]
    must_equal(records, expected)
    must_equal(found[-1].last_offset, segment.end_offset)
    return Outcome.RIGHT


def survivors(batches: Sequence[PlainBatch]) -> list[PlainRecord]:
    """Return what a dictionary keeps: the last record of each key, expired tombstones excepted.

    The logs and indexes here have no aborted transactions.
    """
    data = [
        (batch, record) for batch in batches if not batch.is_control for record in batch.records
    ]
    newest = {record.key: record.offset for _, record in data}
    return [
        record
        for batch, record in data
        if record.key is not None
        and newest[record.key] == record.offset
        and (record.value is not None or not _is_due(batch))
    ]


def _is_due(batch: PlainBatch) -> bool:
    """Whether a batch's tombstones are past their delete horizon; before magic 2 they have none."""
    has_horizon = batch.magic == 2 and bool(batch.attributes & 0x40)
    return has_horizon and batch.base_timestamp_ms <= NOW_MS


def _without_aborts(rng: Random) -> Objects:
    """Draw objects without abort markers, so that the dictionary is right."""
    while True:
        objects = _objects(rng, corrupt=rng.random() < 0.9)
        try:
            markers = [batch for batch in plain_batches(objects.log) if batch.is_control]
        except (Meaningless, LeftOpen):
            return objects
        if not any((record.key or b"")[2:4] == b"\0\0" for m in markers for record in m.records):
            return objects


TIER_PARSERS: Final = (
    Parser(
        name="segment metadata",
        made=lambda rng: _objects(rng, corrupt=rng.random() < 0.95),
        checked=_checked_metadata,
    ),
    Parser(name="survivors", made=_without_aborts, checked=_checked_round, decompresses=True),
)
