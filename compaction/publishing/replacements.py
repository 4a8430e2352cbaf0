"""The events of segments that tierfold made.

A replacement's first event follows from the row alone, so that every run sends the same. Later ones
repeat what brokers noted.

Rule: Kafka `RemoteLogSegmentMetadata`; PUBLISHING 3.8.
"""

from __future__ import annotations

from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.brokers.events import SegmentAdded, SegmentState, SegmentUpdated
from tierfold.compaction.model.segments import PartitionKey, Segment

NO_BROKER: Final = -1
"""The id of no broker: brokers only carry it along."""


def started_event(key: PartitionKey, segment: Segment, now_ms: int) -> SegmentAdded:
    """`COPY_SEGMENT_STARTED` of a live segment, as its row describes it.

    Brokers answer a look-up by time from its largest timestamp, so only records count.
    """
    of_records_ms = segment.records_max_timestamp_ms
    return SegmentAdded(
        key=key,
        segment_id=segment.segment_id,
        start_offset=segment.own_start_offset,
        end_offset=segment.end_offset,
        broker_id=NO_BROKER,
        max_timestamp_ms=segment.max_timestamp_ms if of_records_ms is None else of_records_ms,
        event_timestamp_ms=now_ms,
        leader_epochs=segment.leader_epochs,
        size_bytes=segment.log_bytes,
        custom_metadata=None,
        is_transaction_index_empty=not segment.has_transaction_index,
    )


def update_event(segment: BrokerSegment, state: SegmentState, now_ms: int) -> SegmentUpdated:
    """The event that gives a segment this state; it repeats the plugin's metadata."""
    return SegmentUpdated(
        segment.added.key,
        segment.added.segment_id,
        NO_BROKER,
        now_ms,
        segment.custom_metadata,
        state,
    )
