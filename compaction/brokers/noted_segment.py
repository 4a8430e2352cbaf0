"""A segment that a row takes from what brokers noted of it."""

from __future__ import annotations

from tierfold.compaction.brokers.events import SegmentAdded
from tierfold.compaction.model.origins import UPLOADED, Compacted
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.segments import Segment


def noted_segment(added: SegmentAdded, run: str) -> Segment:
    """A segment as brokers noted it; it is retired, so it is never read."""
    return Segment(
        segment_id=added.segment_id,
        start_offset=added.start_offset,
        end_offset=added.end_offset,
        size_bytes=added.size_bytes,
        offset_index_bytes=0,
        time_index_bytes=0,
        max_timestamp_ms=added.max_timestamp_ms,
        leader_epochs=added.leader_epochs,
        has_transaction_index=not added.is_transaction_index_empty,
        first_timestamp_ms=added.max_timestamp_ms,
        origin=Compacted(run) if is_own_id(added.segment_id) else UPLOADED,
    )
