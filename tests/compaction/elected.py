"""A row of the old leader's segments, and uploads of a new leader with its own offset 60."""

from __future__ import annotations

from typing import Final

from tests.compaction.builders import a_segment, a_state, segment_id, unknown
from tierfold.compaction.discovery.histories import InspectedSegment
from tierfold.compaction.model.segments import LeaderEpoch, PartitionState, Segment

OLD: Final = (LeaderEpoch(epoch=3, start_offset=0),)
NEW: Final = (*OLD, LeaderEpoch(epoch=4, start_offset=60))


def old(start: int, end: int, **fields: object) -> Segment:
    """A segment of the old leader."""
    epochs = (LeaderEpoch(epoch=3, start_offset=start),)
    return a_segment(start, end, leader_epochs=epochs, **fields)


def new(start: int, end: int) -> InspectedSegment:
    """An upload of the new leader, whose log differs from offset 60 on."""
    epochs = tuple(
        LeaderEpoch(epoch=entry.epoch, start_offset=max(start, entry.start_offset))
        for entry in NEW
        if entry.start_offset <= end and (entry.epoch == 4 or start < 60)
    )
    segment = a_segment(start, end, segment_id=segment_id(f"new{start}"), leader_epochs=epochs)
    return unknown(segment, checkpoint=NEW)


def row(*segments: Segment, **fields: object) -> PartitionState:
    return a_state(segments, epoch=2, lineage=OLD, commit_id="last", **fields)
