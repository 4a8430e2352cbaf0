"""A row of the old leader's segments, and uploads of a new leader with its own offset 60."""

from __future__ import annotations

from typing import Final

from tests.compaction.builders import a_segment, a_state, epochs, segment_id, unknown
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.model.leader_epochs import epochs_in
from tierfold.compaction.model.segments import PartitionState, Segment

OLD: Final = epochs((3, 0))
NEW: Final = epochs((3, 0), (4, 60))


def old(start: int, end: int, **fields: object) -> Segment:
    """A segment of the old leader."""
    return a_segment(start, end, leader_epochs=epochs((3, start)), **fields)


def new(start: int, end: int) -> Candidate:
    """An upload of the new leader, whose log differs from offset 60 on."""
    own, name = epochs_in(NEW, start, end), segment_id(f"new{start}")
    segment = a_segment(start, end, segment_id=name, leader_epochs=own)
    return unknown(segment, checkpoint=NEW)


def row(*segments: Segment, **fields: object) -> PartitionState:
    return a_state(segments, epoch=2, lineage=OLD, commit_id="last", **fields)
