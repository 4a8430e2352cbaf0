"""Segment metadata is derived from a few byte ranges and matches the batches of the log."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.storage.legacy_messages import message
from tests.storage.new_ids import new_address
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.errors import CorruptLog, UnreadableObject
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.indexes.producer_snapshot import write_producer_snapshot
from tierfold.storage.indexes.transaction_index import write_transaction_index
from tierfold.storage.kafka.batch_headers import read_heads
from tierfold.storage.segments.segment_metadata import (
    SegmentMetadata,
    listed_checkpoint,
    read_aborted,
    read_checkpoint,
    read_segment_metadata,
    read_snapshot,
)
from tierfold.storage.tiers.local_store import LocalStore
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.remote_tier import PARTS, Part, address_of

REPOSITORY = Path(__file__).parents[3]
KEY = PartitionKey(topic="orders", partition=7, topic_id="EnvZlVwBRBCOjS6Uhrdc6w")
START = 1000
LINEAGE = (LeaderEpoch(epoch=2, start_offset=300), LeaderEpoch(epoch=5, start_offset=1015))
PRODUCER = ProducerEntry(
    producer_id=3,
    epoch=1,
    last_sequence=9,
    last_data_offset=1019,
    last_offset_delta=9,
    last_timestamp_ms=50,
    coordinator_epoch=-1,
    current_txn_first_offset=None,
)
ABORTED = AbortedTransaction(
    producer_id=3, first_offset=1003, last_offset=1009, last_stable_offset=1010
)


def v2(base: int, delta: int, max_ms: int, filler_bytes: int = 0) -> bytes:
    head = struct.pack(
        ">qiibIhiqqqhii", base, 49 + filler_bytes, 5, 2, 0, 0, delta, -1, max_ms, -1, -1, -1, 0
    )
    return head + bytes(filler_bytes)


def timed(offset: int, timestamp_ms: int = -1, magic: int = 1) -> bytes:
    return message(offset, None, timestamp_ms=timestamp_ms, magic=magic)


LOG = v2(1000, 9, 40) + v2(1010, 9, 50) + v2(1020, 2, 45)
PIECES = {
    Part.LOG: LOG,
    Part.OFFSET_INDEX: struct.pack(">ii", 19, 61),
    Part.TIME_INDEX: struct.pack(">qi", 50, 19),
    Part.SNAPSHOT: write_producer_snapshot([PRODUCER]),
    Part.LEADER_EPOCH_CHECKPOINT: write_leader_epoch_checkpoint(LINEAGE),
}


@pytest.fixture
def tier(tmp_path: Path) -> LocalTieredStorage:
    (tmp_path / TIER_FOLDER).mkdir()
    return LocalTieredStorage(LocalStore(tmp_path))


def seen(tier: LocalTieredStorage, pieces: dict[Part, bytes]) -> Segment:
    return described(tier, pieces).segment


def described(tier: LocalTieredStorage, pieces: dict[Part, bytes]) -> SegmentMetadata:
    staged = tier.new_segment(new_address(KEY, START))
    for part in PARTS:
        if part in pieces:
            staged.put(part, pieces[part])
    listed = next(one for one in tier.listing(KEY) if one.segment_id == staged.address.segment_id)
    return read_segment_metadata(tier, KEY, listed, listed_checkpoint(tier, KEY, listed))


def test_metadata_is_read_from_a_few_ranges(tier: LocalTieredStorage) -> None:
    found = seen(tier, PIECES)
    assert found == Segment(
        segment_id=found.segment_id,
        start_offset=START,
        end_offset=1022,
        size_bytes=len(LOG),
        offset_index_bytes=8,
        time_index_bytes=12,
        max_timestamp_ms=50,
        leader_epochs=(
            LeaderEpoch(epoch=2, start_offset=1000),
            LeaderEpoch(epoch=5, start_offset=1015),
        ),
        has_transaction_index=False,
        first_timestamp_ms=40,
    )
    assert read_snapshot(tier, KEY, found) == (PRODUCER,)
    assert read_checkpoint(tier, KEY, found) == LINEAGE
    assert read_aborted(tier, KEY, found) == ()


NO_INDEXES = {Part.OFFSET_INDEX: b"", Part.TIME_INDEX: b""}
MANY_BATCHES = b"".join(v2(1000 + i, 0, i, filler_bytes=700 * (i % 40)) for i in range(150))


def times(timestamp_ms: int, offset: int) -> dict[Part, bytes]:
    return {Part.TIME_INDEX: struct.pack(">qi", timestamp_ms, offset)}


@pytest.mark.parametrize(
    ("changed", "first_ms", "largest_ms", "end_offset"),
    [
        (NO_INDEXES, 40, 50, 1022),
        (NO_INDEXES | {Part.LOG: MANY_BATCHES}, 0, 149, 1149),
        (NO_INDEXES | {Part.LOG: timed(1003, magic=0) + timed(1004, magic=0)}, -1, -1, 1004),
        (NO_INDEXES | {Part.LOG: timed(1003, 70) + timed(1004, 60)}, 70, 70, 1004),
        ({Part.OFFSET_INDEX: struct.pack(">ii", 22, 61)}, 40, 50, 1022),
        (times(40, 9), 40, 50, 1022),
        (times(49, 9), 40, 50, 1022),
        (times(50, 19), 40, 50, 1022),
        (times(90, 9), 40, 90, 1022),
    ],
    ids=[
        "no indexes",
        "a log of several windows",
        "magic 0",
        "magic 1",
        "an index entry with the end of an older broker's append",
        "an old time index",
        "a time index one millisecond too old",
        "a current time index",
        "a largest timestamp before the batches that are read",
    ],
)
def test_the_end_and_the_timestamps_of_a_segment(
    tier: LocalTieredStorage,
    changed: dict[Part, bytes],
    first_ms: int,
    largest_ms: int,
    end_offset: int,
) -> None:
    found = seen(tier, PIECES | changed)
    assert (found.first_timestamp_ms, found.max_timestamp_ms) == (first_ms, largest_ms)
    assert found.end_offset == end_offset


def test_a_segment_that_a_broker_emptied_ends_below_its_start(tier: LocalTieredStorage) -> None:
    found = seen(tier, PIECES | dict.fromkeys((Part.LOG, Part.OFFSET_INDEX, Part.TIME_INDEX), b""))
    assert (found.start_offset, found.end_offset, found.size_bytes) == (START, START - 1, 0)
    assert (found.first_timestamp_ms, found.max_timestamp_ms) == (-1, -1)
    assert found.leader_epochs[0].start_offset == START


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({Part.LOG: b""}, "0 bytes, but its indexes have entries: it was cut short"),
        ({Part.LOG: LOG[:-1]}, "torn: a batch of 61 bytes has 60 left, at position 122"),
        ({Part.LOG: LOG + b"\0" * 5}, "torn: 5 bytes are left, at position 183"),
        ({Part.LOG: LOG + b"\0" * 61}, "offset 0 and 12 bytes, at position 183"),
        ({Part.LOG: LOG + v2(1030, 0, 1)[:40]}, "torn: a batch of 61 bytes has 40 left"),
        ({Part.LOG: LOG[:16] + b"\3" + LOG[17:]}, "magic 3; Kafka has 0, 1 and 2"),
        ({Part.LOG: v2(999, 9, 40) + LOG}, "begins at offset 999, below the segment's start 1000"),
        ({Part.LOG: v2(1000, -1, 40)}, "last offset delta of -1, at position 0"),
        ({Part.LOG: LOG + v2(2**31 + 1000, 0, 1)}, "ends at offset 2147484648, further from"),
        ({Part.LOG: LOG + v2(2**63 - 1, 9, 1)}, "ends at offset 9223372036854775816, further"),
        (
            {Part.LOG: LOG + v2(1022, 0, 1)},
            "out of order: a batch from 1022 on follows offset 1022",
        ),
        ({Part.OFFSET_INDEX: struct.pack(">ii", 19, 183)}, "points at position 183"),
        ({Part.OFFSET_INDEX: struct.pack(">ii", 23, 61)}, "has offset 1023, the log ends at 1022"),
        ({Part.LEADER_EPOCH_CHECKPOINT: b"0\n0\n"}, "names no epoch"),
        ({Part.LEADER_EPOCH_CHECKPOINT: b"0\n1\n5 1023\n"}, "names no epoch"),
        ({Part.LEADER_EPOCH_CHECKPOINT: b"rubbish"}, "checkpoint is damaged"),
    ],
)
def test_parts_that_contradict_the_format_are_refused(
    tier: LocalTieredStorage, changed: dict[Part, bytes], message: str
) -> None:
    with pytest.raises(CorruptLog, match=message) as caught:
        seen(tier, PIECES | changed)
    assert "/orders-7-" in caught.value.where
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("part", "content", "corruption"),
    [
        (Part.OFFSET_INDEX, b"\0" * 7, "7 bytes is torn"),
        (Part.OFFSET_INDEX, b"\xff" * 8, "entry 0 of the offset index"),
        (Part.OFFSET_INDEX, struct.pack(">ii", 19, 61) + bytes(80), "ends in 10 entries of zeros"),
        (Part.OFFSET_INDEX, bytes(80), "ends in 10 entries of zeros"),
        (Part.OFFSET_INDEX, struct.pack(">ii", 1, 61), "offset 1001 for a later batch, from 10"),
        (Part.OFFSET_INDEX, struct.pack(">ii", 19, 60), "does not fit the log"),
        (Part.TIME_INDEX, b"\0" * 7, "7 bytes is torn"),
        (Part.TIME_INDEX, struct.pack(">qi", 50, 19) + bytes(24), "ends in 2 entries of zeros"),
        (Part.TIME_INDEX, bytes(36), "ends in 3 entries of zeros"),
        (Part.TIME_INDEX, struct.pack(">qiqi", 60, 1, 50, 19), "entry 1 of the time index"),
    ],
)
def test_of_a_corrupt_index_the_log_tells_the_same(
    tier: LocalTieredStorage, part: Part, content: bytes, corruption: str
) -> None:
    found = described(tier, PIECES | {part: content})
    (what,) = found.index_corruptions
    assert corruption in what
    sound = described(tier, PIECES).segment
    size = "offset_index_bytes" if part is Part.OFFSET_INDEX else "time_index_bytes"
    same = {"segment_id": sound.segment_id, size: getattr(sound, size)}
    assert replace(found.segment, **same) == sound


def test_a_corrupt_log_is_no_corrupt_index(tier: LocalTieredStorage) -> None:
    with pytest.raises(CorruptLog, match="magic 9; Kafka has 0, 1 and 2"):
        seen(tier, PIECES | {Part.LOG: LOG[:77] + b"\x09" + LOG[78:]})


@pytest.mark.parametrize("part", list(PIECES))
def test_a_missing_part_is_named(tier: LocalTieredStorage, part: Part) -> None:
    pieces = {kept: data for kept, data in PIECES.items() if kept != part}
    with pytest.raises(UnreadableObject, match=rf"the segment lacks \.{part}"):
        seen(tier, pieces)


def test_a_transaction_index_in_the_metadata_must_exist(
    tier: LocalTieredStorage, tmp_path: Path
) -> None:
    found = seen(tier, PIECES | {Part.TRANSACTION_INDEX: write_transaction_index([ABORTED])})
    assert found.has_transaction_index
    assert read_aborted(tier, KEY, found) == (ABORTED,)
    next(tmp_path.glob("*/*/*.txnindex")).unlink()
    with pytest.raises(UnreadableObject, match="it is not there"):
        read_aborted(tier, KEY, found)


def test_a_brokers_segments_have_the_metadata_of_their_batches() -> None:
    tier = LocalTieredStorage(LocalStore(REPOSITORY / "sample"))
    (key,) = tier.partitions()
    listed = tier.listing(key)
    assert len(listed) >= 3
    for listed_segment, following in zip(listed, [*listed[1:], None], strict=True):
        checkpoint = listed_checkpoint(tier, key, listed_segment)
        found = read_segment_metadata(tier, key, listed_segment, checkpoint).segment
        log = tier.read_part(address_of(key, listed_segment), Part.LOG)
        heads = read_heads(log, where="sample")
        assert found.end_offset == heads.last_offset[-1]
        assert found.max_timestamp_ms == np.max(heads.max_timestamp_ms)
        assert found.first_timestamp_ms == heads.max_timestamp_ms[0]
        assert following is None or following.start_offset == found.next_offset
        assert len(read_snapshot(tier, key, found)) == 3
        assert len(read_aborted(tier, key, found)) > 0
