"""Replayed producers have the state that a broker's snapshot has."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tests.storage.live_segments import data, log_of, marker
from tests.storage.stored_logs import stored
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.log_windows import StoredObject, live_log, sized_windows
from tierfold.storage.segments.producer_replay import ProducerReplay, end_markers_of
from tierfold.storage.segments.segment_metadata import (
    listed_checkpoint,
    read_segment_metadata,
    read_snapshot,
)
from tierfold.storage.segments.window import decoded_windows
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

REPOSITORY = Path(__file__).parents[3]


def replayed(before: tuple[ProducerEntry, ...], log: StoredObject) -> tuple[ProducerEntry, ...]:
    replay = ProducerReplay(before)
    for window, records in decoded_windows(sized_windows(log)):
        replay.add(window.heads, end_markers_of(records, window.control_types(records)))
    return replay.entries


def test_the_snapshots_of_a_broker_are_replayed_from_its_log() -> None:
    tier = LocalTieredStorage(LocalStore(REPOSITORY / "sample"))
    (key,) = tier.partitions()
    segments = [_segment(tier, key, number) for number in range(len(tier.listing(key)))]
    assert len(segments) >= 3
    before: tuple[ProducerEntry, ...] = ()
    for segment in segments:
        before = replayed(before, live_log(tier, key, segment))
        assert before == by_id(read_snapshot(tier, key, segment))
        assert len(before) == 3
    for earlier, later in pairwise(segments):
        start = read_snapshot(tier, key, earlier)
        found = replayed(start, live_log(tier, key, later))
        assert found == by_id(read_snapshot(tier, key, later))


def by_id(entries: tuple[ProducerEntry, ...]) -> tuple[ProducerEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.producer_id))


def _segment(tier: LocalTieredStorage, key: PartitionKey, number: int) -> Segment:
    listed = tier.listing(key)[number]
    checkpoint = listed_checkpoint(tier, key, listed)
    return read_segment_metadata(tier, key, listed, checkpoint).segment


def test_a_new_epoch_knows_no_data_batch_and_sequences_wrap() -> None:
    last = 2**31 - 1
    first = replace(data(0, (b"a", b"1"), (b"b", b"1"), producer_id=5), base_sequence=last)
    bumped = replace(marker(2, 5, ControlType.COMMIT), producer_epoch=1)
    (entry,) = replayed((), stored(log_of([first])))
    assert (entry.last_sequence, entry.last_data_offset, entry.last_offset_delta) == (0, 1, 1)
    assert entry.current_txn_first_offset == 0
    (entry,) = replayed((), stored(log_of([first, bumped])))
    assert (entry.epoch, entry.last_sequence, entry.last_data_offset) == (1, -1, -1)
    assert entry.current_txn_first_offset is None
