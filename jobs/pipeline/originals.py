"""Finds the segments that brokers wrote, from the log start on, live and replaced.

While all of them exist, they define the latest value of every key.
"""

from __future__ import annotations

from tierfold.compaction.discovery.listing import keys_are_there
from tierfold.compaction.discovery.view import PartitionView, first_break
from tierfold.compaction.model.segments import Segment, uploads_of
from tierfold.storage.tiers.remote_tier import Listing


def originals_of(view: PartitionView, listed: Listing) -> tuple[Segment, ...] | str:
    """Return the originals in offset order, or why they do not cover the live range.

    `listed` is the partition's listing.
    """
    originals = _originals(view)
    by_id = {found.segment_id: found for found in listed}
    gone = sum(
        segment.segment_id not in by_id or not keys_are_there(segment, by_id[segment.segment_id])
        for segment in originals
    )
    if gone:
        return f"{gone} of {len(originals)} original segments are gone"
    is_whole = (
        bool(originals)
        and originals[0].start_offset == view.segments[0].start_offset
        and originals[-1].end_offset == view.segments[-1].end_offset
        and first_break(originals) is None
    )
    return tuple(originals) if is_whole else "some original segments are gone"


def _originals(view: PartitionView) -> list[Segment]:
    """The uploads of brokers from the log start on, in offset order, except those being deleted.

    Segments below the log start have expired; segments being deleted may vanish during the read.
    """
    retired = view.state.whole_retired if view.state is not None else ()
    known = uploads_of([*(entry.segment for entry in retired), *view.segments])
    return [segment for segment in known if segment.end_offset >= view.log_start_offset]
