"""Records of brokers' metadata are read and written byte by byte; what Kafka refuses is refused."""

from __future__ import annotations

import pytest

from tests.compaction.broker_events import FINISHED, LISTED, STARTED, added, updated
from tests.compaction.builders import KEY
from tierfold.compaction.brokers.event_bytes import decode, encode
from tierfold.compaction.brokers.events import Effect, Event, NoEvent, SegmentAdded, SegmentUpdated
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey

GOLDEN_KEY = PartitionKey(topic="a-b", partition=7, topic_id="OEFGDTtqoeaNaCco9hD7HA")
GOLDEN_ID = "AHFS3qhlHz_OWXlhaOkziw"
GOLDEN_ADDED = SegmentAdded(
    key=GOLDEN_KEY,
    segment_id=GOLDEN_ID,
    start_offset=1000,
    end_offset=2**40,
    broker_id=3,
    max_timestamp_ms=-1,
    event_timestamp_ms=1_700_000_000_000,
    leader_epochs=(
        LeaderEpoch(epoch=2, start_offset=1000),
        LeaderEpoch(epoch=5, start_offset=1500),
    ),
    size_bytes=61,
    custom_metadata=b"\x01\xff",
    is_transaction_index_empty=True,
)
GOLDEN_UPDATED = SegmentUpdated(
    key=GOLDEN_KEY,
    segment_id=GOLDEN_ID,
    broker_id=-1,
    event_timestamp_ms=1_700_000_000_001,
    custom_metadata=None,
    state=LISTED,
)
GOLDEN_IDS = (
    "04612d62 3841460d3b6aa1e68d682728f610fb1c 00000007 00 007152dea8651f3fce59796168e9338b 00"
)
"""The name, the topic id, the partition, no tags, the segment id, no tags."""
GOLDEN = {
    "added": (
        GOLDEN_ADDED,
        f"010000 {GOLDEN_IDS} 00000000000003e8 0000010000000000 00000003 ffffffffffffffff"
        "0000018bcfe56800 03 00000002 00000000000003e8 00 00000005 00000000000005dc 00"
        "0000003d 0301ff 00 01000101",
    ),
    "updated": (
        GOLDEN_UPDATED,
        f"010100 {GOLDEN_IDS} ffffffff 0000018bcfe56801 00 02 00",
    ),
}
"""As Kafka 4.3.0 and 4.4.0 write them (`tests/oracle/test_same_metadata.py`)."""

ADDED = encode(added("a", 0, 9))
UPDATED = encode(updated("a", FINISHED))
IDS_END = 3 + 1 + len(KEY.topic) + 16 + 4 + 1 + 16 + 1
"""Where the fields after both ids begin."""
NEGATIVE = b"\xff\xff\xff\xff\x0f"
"""A varint that Kafka takes for −1."""


def spliced(value: bytes, at: int, other: bytes, length: int = 1) -> bytes:
    """The value with `length` bytes replaced."""
    at %= len(value)
    return value[:at] + other + value[at + length :]


@pytest.mark.parametrize("name", GOLDEN)
def test_events_are_read_and_written_as_kafka_writes_them(name: str) -> None:
    event, text = GOLDEN[name]
    assert encode(event) == bytes.fromhex(text)
    assert decode(bytes.fromhex(text)) == event


def test_a_length_below_zero_is_null() -> None:
    assert decode(spliced(UPDATED, -3, NEGATIVE)) == updated("a", FINISHED)


@pytest.mark.parametrize("custom", [None, b"", b"x", bytes(300)])
def test_a_plugins_bytes_are_kept(custom: bytes | None) -> None:
    for event in (added("a", 0, 9, custom_metadata=custom), updated("a", FINISHED)):
        changed: Event = event._replace(custom_metadata=custom)
        assert decode(encode(changed)) == changed


@pytest.mark.parametrize("is_empty", [True, False])
def test_an_empty_transaction_index_is_a_tagged_field(*, is_empty: bool) -> None:
    event = added("a", 0, 9, is_transaction_index_empty=is_empty)
    assert decode(encode(event)) == event
    assert encode(event).endswith(b"\x01\x00\x01\x01") is is_empty
    written = spliced(ADDED, -1, bytes([is_empty]))
    assert decode(written) == event


STOPPING = {
    "has no value": None,
    "ends within a field": UPDATED[:-3],
    "ends within a field ": ADDED[:20],
    "ends within a field  ": spliced(UPDATED, -3, b"\x0a"),
    "has frame version 0": spliced(UPDATED, 0, b"\x00"),
    "has frame version 32768": spliced(UPDATED, 0, b"\x80\x80\x02"),
    "has a varint of more than five bytes": spliced(UPDATED, 0, b"\xff\xff\xff\xff\xff\x01"),
    "has a topic's name of -1 bytes": spliced(UPDATED, 3, b"\x00"),
    "has a topic's name of 32768 bytes": spliced(UPDATED, 3, b"\x81\x80\x02" + bytes(32768), 7),
    "has state 4": spliced(UPDATED, -2, b"\x04"),
    "has state 255": spliced(UPDATED, -2, b"\xff"),
    "has 1 bytes after its last field": UPDATED + b"\x00",
    "has 2 bytes after its last field": ADDED + b"\x00\x00",
    "has a list of -1 leader epochs": spliced(ADDED, IDS_END + 36, b"\x00"),
    "has a list of 127 leader epochs": spliced(ADDED, IDS_END + 36, b"\x80\x01"),
    "has -1 tagged fields": spliced(UPDATED, -1, NEGATIVE),
    "has 5 tagged fields": spliced(UPDATED, -1, b"\x05"),
    "has a tagged field of -1 bytes": spliced(UPDATED, -1, b"\x01\x07" + NEGATIVE),
    "has a tagged field of 4 bytes": spliced(UPDATED, -1, b"\x01\x07\x04abc"),
    "adds a segment that starts at offset -1": encode(added("a", -1, 9)),
    "adds a segment of offsets 5 to 4": encode(added("a", 5, 4)),
    "adds a segment without leader epochs": encode(added("a", 0, 9, epochs={})),
    "adds a segment in state COPY_FINISHED": spliced(ADDED, -5, b"\x01"),
}


@pytest.mark.parametrize("why", STOPPING)
def test_what_stops_brokers_is_found_with_its_reason(why: str) -> None:
    assert decode(STOPPING[why]) == NoEvent(Effect.STOPS_BROKERS, why.strip())


UNKNOWN = {
    "has frame version 2": spliced(UPDATED, 0, b"\x02"),
    "has api key 2": spliced(UPDATED, 1, b"\x02"),
    "has api key 300": spliced(UPDATED, 1, b"\xac\x02"),
    "has version 1 of api key 0": spliced(ADDED, 2, b"\x01"),
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_what_is_newer_is_unknown(why: str) -> None:
    assert decode(UNKNOWN[why]) == NoEvent(Effect.UNKNOWN, why)


@pytest.mark.parametrize("name", [b"or\xffers", b"or/ers", b"\x1b[31mab"[:6]])
def test_a_topic_that_cannot_exist_is_ignored(name: bytes) -> None:
    value = spliced(UPDATED, 4, name, len(name))
    assert decode(value) == NoEvent(Effect.IGNORED, "names a partition that cannot exist")
    # Brokers still read the rest.
    assert decode(value[:-1]) == NoEvent(Effect.STOPS_BROKERS, "ends within a field")


def test_a_partition_that_cannot_exist_is_ignored() -> None:
    event = added("a", 0, 9)
    value = encode(event._replace(key=PartitionKey(topic="t", partition=-1, topic_id=KEY.topic_id)))
    assert decode(value) == NoEvent(Effect.IGNORED, "names a partition that cannot exist")


TAG = b"\x01\x07\x03abc"


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (UPDATED, IDS_END - 18),
        (UPDATED, IDS_END - 1),
        (UPDATED, len(UPDATED) - 1),
        (ADDED, IDS_END - 18),
        (ADDED, IDS_END + 37 + 12),
    ],
)
def test_unknown_fields_are_noticed_wherever_they_are(value: bytes, at: int) -> None:
    event, plain = decode(spliced(value, at, TAG)), decode(value)
    assert not isinstance(event, NoEvent)
    assert not isinstance(plain, NoEvent)
    assert event.has_unknown_fields
    assert not plain.has_unknown_fields
    assert event._replace(has_unknown_fields=False) == plain
    # They would be lost.
    with pytest.raises(ValueError, match="fields that are not known here"):
        encode(event)


def test_unknown_fields_before_an_id_of_zeros_are_noticed() -> None:
    event = updated("a", FINISHED, segment_id="A" * 22)
    value = spliced(encode(event), IDS_END - 18, TAG)
    assert decode(value) == event._replace(has_unknown_fields=True)


def test_an_unknown_field_stands_beside_the_known_one() -> None:
    event = decode(spliced(ADDED, -4, b"\x02\x00\x01\x01\x07\x03abc", 4))
    assert event == added("a", 0, 9, has_unknown_fields=True)


def test_leader_epochs_are_taken_as_kafka_does() -> None:
    event = added("a", 0, 9, epochs={5: 4, 2: 0})
    first, last = event.leader_epochs
    twice = event._replace(leader_epochs=(first, last, LeaderEpoch(epoch=5, start_offset=7)))
    assert decode(encode(twice)) == event._replace(
        leader_epochs=(last, LeaderEpoch(epoch=5, start_offset=7))
    )


def test_numbers_that_take_more_bytes_than_needed_are_read() -> None:
    value = b"\x81\x00\x81\x80\x00\x80\x00" + UPDATED[3:]
    assert decode(value) == updated("a", FINISHED)
    assert decode(b"\x81\x00\x80\x00\x00" + ADDED[3:]) == added("a", 0, 9)


def test_versions_are_cut_to_their_lowest_16_bits() -> None:
    assert decode(b"\x81\x80\xfc\xff\x0f" + UPDATED[1:]) == updated("a", FINISHED)


def test_the_ranges_of_leader_epochs_follow_each_other() -> None:
    event = added("a", 0, 9, epochs={2: 0, 5: 4, 7: 8})
    assert [(entry.epoch, end) for entry, end in event.ranges()] == [(2, 3), (5, 7), (7, 9)]
    assert updated("a", STARTED).state == STARTED
