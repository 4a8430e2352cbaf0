"""New ids of segments: a broker's, and those of a catalog with `FINGERPRINT`."""

from __future__ import annotations

from tests.compaction.hash_keys import FINGERPRINT
from tierfold.compaction.model.segment_ids import SegmentMark
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid, new_segment_id
from tierfold.storage.tiers.remote_tier import SegmentAddress


def own_id() -> str:
    """The id of a segment that a run wrote."""
    return new_segment_id(SegmentMark(FINGERPRINT, is_restored=False))


def new_address(key: PartitionKey, start_offset: int) -> SegmentAddress:
    """Where a broker puts its next upload."""
    return SegmentAddress(key, new_kafka_uuid(), start_offset)


def own_address(key: PartitionKey, start_offset: int) -> SegmentAddress:
    """Where a run puts its next segment."""
    return SegmentAddress(key, own_id(), start_offset)


def foreign_id() -> str:
    """The id of a new segment of another catalog."""
    return new_segment_id(SegmentMark(FINGERPRINT ^ 1, is_restored=False))
